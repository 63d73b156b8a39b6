#!/bin/sh
# g++ for torch's compiler.  Every kernel that it compiles includes one large header, whose parsing takes most of the
# time.  The first kernel precompiles that header into torch's cache.  g++ ignores it if a later call's options differ.

header=torch/csrc/inductor/cpp_prefix.h
folder=$TORCHINDUCTOR_CACHE_DIR/headers

precompile() ( # precompile ARGUMENT…: those of the first kernel
    mkdir "$folder" || exit
    for argument; do
        shift
        case $previous$argument in *.cpp | -o* | -shared | -l*) ;; *) set -- "$@" "$argument" ;; esac
        previous=
        [ "$argument" != -o ] || previous=-o
    done
    echo "#include <$header>" >"$folder/header.h"
    g++ "$@" "$folder/header.h" -o "$folder/header.gch" &&
        mkdir -p "$folder/${header%/*}" &&
        mv "$folder/header.gch" "$folder/$header.gch"
    rm -f "$folder/header.gch"
) >/dev/null 2>&1

for argument; do
    case $argument in
        *.cpp)
            if grep -q "$header" "$argument"; then
                [ -e "$folder" ] || precompile "$@"
                set -- "-I$folder" "$@"
            fi
            ;;
    esac
done
exec g++ "$@"
