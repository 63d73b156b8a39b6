"""The protocol: what an honest player sends is read; everything else is refused with a reason."""

import json

import pytest

from harness.inside.protocol import (
    MAX_DEPTH,
    MAX_LEAVES,
    Allocated,
    Done,
    Failed,
    Loaded,
    ProtocolError,
    Ready,
    TensorSpec,
    TooComplex,
    Unsupported,
    read_answer,
    tensors_of,
)


def done(output):
    return json.dumps({"is": "done", "output": output}).encode()


TENSOR = {"dtype": "float32", "shape": [2, 3], "strides": [3, 1], "at": 4096}


@pytest.mark.parametrize(
    ("packet", "answer"),
    [
        (b'{"is": "ready"}', Ready()),
        (b'{"is": "loaded"}', Loaded()),
        (b'{"is": "allocated", "at": [4096, 8192]}', Allocated((4096, 8192))),
        (done(TENSOR), Done(TensorSpec("float32", (2, 3), (3, 1), 4096))),
        (done({"tuple": [1, 2.5, None, True, "x"]}), Done((1, 2.5, None, True, "x"))),
        (done({"dict": [["a", [TENSOR]]]}), Done({"a": [TensorSpec("float32", (2, 3), (3, 1), 4096)]})),
        (done({"object": "LazyTensor"}), Done(Unsupported("LazyTensor"))),
        (
            b'{"is": "failed", "error": "ValueError", "message": "no", "traceback": "", "line": 3}',
            Failed("ValueError", "no", "", 3),
        ),
    ],
)
def test_an_honest_players_message_is_read(packet, answer):
    assert read_answer(packet) == answer


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"is": "accepted"}',
        b'{"is": "ready", "more": 1}',
        b'{"is": "allocated", "at": "4096"}',
        b'{"is": "allocated", "at": [-1]}',
        b'{"is": "allocated", "at": [true]}',
        b'{"is": "allocated", "at": [1e3]}',
        b'{"is": "allocated", "at": [9223372036854775808]}',
        b"[" * 100_000,
        b" " * 70_000,
        done({**TENSOR, "dtype": "object"}),
        done({**TENSOR, "shape": [-2, 3]}),
        done({**TENSOR, "shape": [2]}),
        done({**TENSOR, "strides": [3, -1]}),
        done({**TENSOR, "at": 2**64}),
        done({**TENSOR, "extra": 1}),
        done({"tuple": "abc"}),
    ],
)
def test_a_message_that_no_honest_player_sends_is_refused(packet):
    with pytest.raises(ProtocolError):
        read_answer(packet)


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    "output",
    [
        nested(MAX_DEPTH + 2),
        [0] * MAX_LEAVES,
        {"dict": [[["unhashable"], 1]]},
        {"dict": [[None, 1]]},
        {**TENSOR, "shape": [2, 2**60]},
        {**TENSOR, "shape": [1] * 17, "strides": [1] * 17},
    ],
)
def test_a_too_complex_output_is_not_called_tampering(output):
    with pytest.raises(TooComplex):
        read_answer(done(output))


@pytest.mark.parametrize(
    ("shape", "strides", "span", "dense"),
    [
        ((), (), 4, True),
        ((2, 3), (3, 1), 24, True),
        ((2, 3), (1, 2), 24, True),
        ((2, 3), (10, 1), 52, False),
        ((5, 3), (0, 1), 12, False),
        ((0, 3), (3, 1), 0, True),
    ],
)
def test_a_span_runs_from_the_first_to_the_last_element(shape, strides, span, dense):
    spec = TensorSpec("float32", shape, strides)
    assert (spec.span_bytes, spec.is_dense) == (span, dense)


def test_tensors_are_found_in_any_nesting():
    a, b = TensorSpec("int8", (1,), (1,)), TensorSpec("int8", (2,), (1,))
    assert list(tensors_of(({"x": [a, 1]}, None, (b,)))) == [a, b]
