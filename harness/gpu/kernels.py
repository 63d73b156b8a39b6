"""Kernels of the referee, in PTX: the driver compiles them for the GPU that is there, so no compiler is needed.

They move 16 bytes per step, in as many blocks as they are launched with.  Kernels, unlike the driver's copies, take
their turn on the GPU's processors, so they cannot run beside another context's work.
"""

_HEADER = """
.version 7.0
.target sm_70
.address_size 64
"""


def _kernel(name: str, second: str, step: str) -> str:
    """A kernel with the parameters `target`, `second` and `count`, which does a step for each of `count` pieces.

    In a step, `%to` is the address of its piece of the target, `%offset` the piece's offset, and `%value` the second
    parameter.
    """
    return f"""
.visible .entry {name}(.param .u64 target, .param .u64 {second}, .param .u64 count)
{{
    .reg .pred %at_end;
    .reg .b32 %block, %width, %thread, %blocks, %x, %y, %z, %w;
    .reg .b64 %i, %step, %count, %offset, %target, %value, %to, %from;
    ld.param.u64 %target, [target];
    ld.param.u64 %value, [{second}];
    ld.param.u64 %count, [count];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    cvt.u64.u32 %i, %thread;
    mad.wide.u32 %i, %block, %width, %i;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %step, %blocks, %width;
next:
    setp.ge.u64 %at_end, %i, %count;
    @%at_end bra done;
    shl.b64 %offset, %i, 4;
    add.u64 %to, %target, %offset;
{step}
    add.u64 %i, %i, %step;
    bra next;
done:
    ret;
}}
"""


_COPY = """
    add.u64 %from, %value, %offset;
    ld.volatile.global.v4.b32 {%x, %y, %z, %w}, [%from];
    st.global.v4.b32 [%to], {%x, %y, %z, %w};
"""
_FILL = """
    cvt.u32.u64 %x, %value;
    st.global.v4.b32 [%to], {%x, %x, %x, %x};
"""
REFEREE = _HEADER + _kernel("copy", "source", _COPY) + _kernel("fill", "value", _FILL)
"""`copy` and `fill` of `count` pieces of 16 bytes; `fill` writes a value of 32 bits."""
