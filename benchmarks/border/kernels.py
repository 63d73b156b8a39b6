"""Kernels of the probes, in PTX.  Each runs in one block; times are read from the GPU's own clock, `%globaltimer`."""

_WAIT = """
    mov.u64 %begin, %globaltimer;
wait:
    mov.u64 %time, %globaltimer;
    sub.u64 %time, %time, %begin;
    setp.lt.u64 %over, %time, %ns;
    @%over bra wait;
"""
_REGISTERS = """
    .reg .pred %over;
    .reg .b32 %thread, %x, %old;
    .reg .b64 %i, %count, %from, %to, %ns, %begin, %time;
    ld.param.u64 %to, [target];
    ld.param.u64 %from, [source];
    ld.param.u64 %count, [count];
    ld.param.u64 %ns, [ns];
    mov.u32 %thread, %tid.x;
    cvt.u64.u32 %i, %thread;
"""
_ADD_ONE = f"""
    setp.ge.u64 %over, %i, %count;
    @%over bra done;
    shl.b64 %i, %i, 2;
    add.u64 %from, %from, %i;
    ld.volatile.global.u32 %x, [%from];
{_WAIT}
    add.u32 %x, %x, 1;
    add.u64 %to, %to, %i;
    st.volatile.global.u32 [%to], %x;
done:
    ret;
"""
"""Each thread reads its number before it waits: so all of the wait is work on these inputs."""
_PARAMETERS = "(.param .u64 target, .param .u64 source, .param .u64 count, .param .u64 ns)"

PROBES = f"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry spin{_PARAMETERS}
{{
{_REGISTERS}
{_ADD_ONE}
}}

.visible .entry poll(.param .u64 target, .param .u64 source, .param .u64 count, .param .u64 ns, .param .u64 old)
{{
{_REGISTERS}
    ld.param.u32 %old, [old];
again:
    ld.volatile.global.u32 %x, [%from];
    setp.eq.u32 %over, %x, %old;
    @%over bra again;
{_ADD_ONE}
}}

.visible .entry stamp(.param .u64 log, .param .u64 ns)
{{
    .reg .pred %over;
    .reg .b64 %to, %ns, %begin, %time;
    ld.param.u64 %to, [log];
    ld.param.u64 %ns, [ns];
{_WAIT}
    st.volatile.global.u64 [%to], %begin;
    add.u64 %time, %time, %begin;
    st.volatile.global.u64 [%to+8], %time;
    ret;
}}

.visible .entry gaps(.param .u64 log, .param .u64 most, .param .u64 least_ns, .param .u64 ns)
{{
    .reg .pred %over;
    .reg .b64 %to, %most, %least, %ns, %begin, %before, %time, %gap, %found, %at;
    ld.param.u64 %to, [log];
    ld.param.u64 %most, [most];
    ld.param.u64 %least, [least_ns];
    ld.param.u64 %ns, [ns];
    mov.u64 %found, 0;
    mov.u64 %begin, %globaltimer;
    mov.u64 %before, %begin;
look:
    mov.u64 %time, %globaltimer;
    sub.u64 %gap, %time, %before;
    setp.le.u64 %over, %gap, %least;
    @%over bra next;
    shl.b64 %at, %found, 4;
    add.u64 %at, %at, %to;
    st.volatile.global.u64 [%at+24], %before;
    st.volatile.global.u64 [%at+32], %time;
    add.u64 %found, %found, 1;
next:
    mov.u64 %before, %time;
    setp.ge.u64 %over, %found, %most;
    @%over bra done;
    sub.u64 %gap, %time, %begin;
    setp.lt.u64 %over, %gap, %ns;
    @%over bra look;
done:
    st.volatile.global.u64 [%to], %found;
    st.volatile.global.u64 [%to+8], %begin;
    st.volatile.global.u64 [%to+16], %time;
    ret;
}}
"""
"""spin    read `count` numbers of 32 bits, at most one per thread, wait `ns`, and write source + 1 to target
poll    wait until the first number of the source is not `old`, then do what spin does
stamp   wait `ns`; write the times of begin and end to `log`
gaps    run for `ns`; write to `log` the number of gaps of more than `least_ns` between two looks at the clock, at most
        `most`, its own begin and end, and those of each gap: that is when the GPU did something else
"""
