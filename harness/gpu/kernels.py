"""Kernels of the referee, in PTX: the driver compiles them for the GPU that is there, so no compiler is needed.

They move 16 bytes per step, in as many blocks as they are launched with.  Kernels, unlike the driver's copies, take
their turn on the GPU's processors, so they cannot run beside another context's work.
"""

_LOOP = """
    .reg .pred %at_end;
    .reg .b32 %block, %width, %thread, %blocks;
    .reg .b32 %x, %y, %z, %w;
    .reg .b64 %i, %step, %count, %offset, %from, %to;
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    cvt.u64.u32 %i, %thread;
    mad.wide.u32 %i, %block, %width, %i;
    mov.u32 %blocks, %nctaid.x;
    mul.wide.u32 %step, %blocks, %width;
"""
"""Element `%i` of each thread, and the `%step` to its next one."""

REFEREE = f"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry copy(.param .u64 target, .param .u64 source, .param .u64 count)
{{
{_LOOP}
    ld.param.u64 %to, [target];
    ld.param.u64 %from, [source];
    ld.param.u64 %count, [count];
next:
    setp.ge.u64 %at_end, %i, %count;
    @%at_end bra done;
    shl.b64 %offset, %i, 4;
    add.u64 %offset, %offset, %from;
    ld.volatile.global.v4.b32 {{%x, %y, %z, %w}}, [%offset];
    shl.b64 %offset, %i, 4;
    add.u64 %offset, %offset, %to;
    st.global.v4.b32 [%offset], {{%x, %y, %z, %w}};
    add.u64 %i, %i, %step;
    bra next;
done:
    ret;
}}

.visible .entry fill(.param .u64 target, .param .u64 value, .param .u64 count)
{{
{_LOOP}
    ld.param.u64 %to, [target];
    ld.param.u32 %x, [value];
    ld.param.u64 %count, [count];
next:
    setp.ge.u64 %at_end, %i, %count;
    @%at_end bra done;
    shl.b64 %offset, %i, 4;
    add.u64 %offset, %offset, %to;
    st.global.v4.b32 [%offset], {{%x, %x, %x, %x}};
    add.u64 %i, %i, %step;
    bra next;
done:
    ret;
}}
"""
"""`copy` and `fill` of `count` pieces of 16 bytes; `fill` writes a value of 32 bits."""
