"""A server and four workers, and two processes that share each batch: one launch of real processes for all of it."""

import contextlib
import functools
import os
import socket
import threading

import numpy as np
import pytest
import torch

from dpml.byzantine import attacks
from dpml.byzantine.aggregation import median
from dpml.byzantine.distributed import distribute
from dpml.byzantine.simulation import Simulation, simulate
from dpml.training import messages, shared
from dpml.training.messages import HEAD, LAST, Line, Server, WrongLengthError
from tests.byzantine import ranks
from tests.launching import launch
from tests.training import helpers


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """What the five processes of `ranks.py` left."""
    if os.name == "nt":
        pytest.skip("Windows has no signal that ends a process at once")
    folder = tmp_path_factory.mktemp("launched")
    codes, found = launch(ranks.main, folder, size=5)
    assert codes == [0, 0, 0, 0, -9]
    return found | {"folder": folder}


# ---- the server and its workers ----


def test_processes_end_where_the_simulation_ends(launched):
    """To the last bit, dropout included; with the guarantees of the simulation, and nobody was missed."""
    found, model = launched["whole"], helpers.network(dropout=0.2)
    run = simulate(model, helpers.cross_entropy, *helpers.data(), steps=5, **ranks.arguments(model))
    assert torch.equal(found["end"], helpers.flat(model))
    assert found["epsilon"] == run.guarantee.epsilon and found["own"] == run.worker_guarantee.epsilon
    assert found["absent"] == []


def test_the_server_goes_on_without_a_liar_that_died_and_says_so(launched):
    """Step by step with the vectors that came: without the liar where it sent a wrong shape, and after its death."""
    found, model = launched["lossy"], helpers.network()
    given = ranks.arguments(model)
    honest = Simulation(model, helpers.cross_entropy, *helpers.data(), steps=9, **given).workers(range(3), torch.clone)
    for step in range(1, ranks.LEFT):
        sent = honest.step().gradient
        lies = [attacks.little(sent)] if step < ranks.KILLED and step != ranks.WRONG else []
        whole = median(torch.stack([*sent, *lies]), n_byzantine=1)
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(helpers.flat(model) - 0.1 * whole, model.parameters())
    assert (found["end"] - helpers.flat(model)).abs().max() < 1e-5
    assert found["absent"] == [
        (ranks.WRONG, 4, "sent 28 bytes in place of 212"),
        (ranks.KILLED, 4, "is gone"),
        (ranks.LEFT, 2, "is gone"),
    ]
    assert found["said"][1].startswith("worker 4 is gone, in step 4: the server goes on; 3 of 4 workers are connected")
    assert len(found["said"]) == 3


def test_with_too_few_left_the_run_ends_with_what_was_spent(launched):
    found = launched["lossy"]
    assert found["error"].startswith("n_byzantine must")  # the median wants 3 of 2 vectors
    assert found["notes"][0].startswith(f"{ranks.LEFT - 1} private steps were done before this. Spent, with the step")


def test_what_processes_refuse():
    model = helpers.network()
    given = {"steps": 2, **ranks.arguments(model)}
    here = functools.partial(distribute, model, helpers.cross_entropy, *helpers.data(), place=(0, Server({}, 4)))
    helpers.refuses(here, given, n=(5,), checkpoint=("a.pt",), n_byzantine=(2,), seconds=(0.0,))
    with pytest.raises(ConnectionError, match=r"^no worker answered in step 1"):
        here(**given)


def test_connect_wants_several_processes(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match=r"^connect must run in one of at least two processes"):
        messages.connect(seconds=1.0)
    with pytest.raises(ValueError, match=r"^seconds must"):
        messages.connect(seconds=0.0)


# ---- messages ----


@pytest.fixture
def lines():
    """Two ends of a connection."""
    ends = socket.socketpair()
    yield tuple(map(Line, ends))
    for end in ends:
        end.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_arrive_as_they_were_sent(lines, dtype):
    one, other = lines
    numbers = torch.tensor([1.5, -0.0, float("inf"), float("nan"), 1e-30]).to(dtype)
    one.send(7, numbers, seconds=5.0)
    step, came = other.receive(like=numbers, seconds=5.0)
    assert step == 7 and came.dtype == dtype
    assert torch.equal(came.view(torch.uint8), numbers.view(torch.uint8))


@pytest.mark.parametrize("length", [0, 4, 16, 2_000_000])
def test_a_wrong_length_is_read_away(lines, length):
    one, other = lines
    sender = threading.Thread(
        target=lambda: [one.send(i, torch.ones(n), seconds=5.0) for i, n in enumerate((length, 3))]
    )
    sender.start()
    with pytest.raises(WrongLengthError, match=rf"^sent {4 * length} bytes in place of 12"):
        other.receive(like=torch.ones(3), seconds=5.0)
    step, came = other.receive(like=torch.ones(3), seconds=5.0)
    sender.join()
    assert step == 1 and torch.equal(came, torch.ones(3))


@pytest.fixture
def worker():
    """A function from what a thread does with its end of a connection to the other end, for the server."""
    made, threads = [], []

    def start(respond):
        here, there = map(Line, socket.socketpair())
        made.extend((here, there))
        threads.append(threading.Thread(target=respond, args=(there,)))
        threads[-1].start()
        return here

    yield start
    for line in made[::2]:
        line.close()
    for thread in threads:
        thread.join()
    for line in made:
        line.close()


def test_no_worker_can_do_more_than_answer_nothing(worker):
    """Seven that do wrong in seven ways, beside two that answer."""

    def good(line):
        messages.answer(line, lambda step, numbers: step + numbers, like=torch.ones(3), seconds=30.0)

    def raw(piece):
        def respond(line):
            with contextlib.suppress(OSError, WrongLengthError):
                while True:
                    line.receive(like=torch.ones(3), seconds=30.0)
                    line.socket.sendall(piece)

        return respond

    ok = HEAD.pack(1, 12) + torch.full((3,), 9.0).numpy().tobytes()
    others = {
        2: raw(HEAD.pack(1, 2**62)),
        3: raw(b"\xff" * 16),
        4: raw(HEAD.pack(5, 12) + b"\0" * 12),
        5: raw(b"\0" * 3),
        6: raw(HEAD.pack(LAST, 0)),
        7: raw(HEAD.pack(1, 0)),
        8: raw(ok[:20]),
    }
    server = Server({1: worker(good), 9: worker(good)} | {i: worker(respond) for i, respond in others.items()}, 9)
    zeros = torch.zeros(3)
    with pytest.warns(UserWarning, match="the server goes on"):
        found = server.ask(1, zeros, like=zeros, seconds=3.0)
    assert {number: one.tolist() for number, one in found.items()} == {1: [1.0] * 3, 9: [1.0] * 3}
    assert {number for _, number, _ in server.absent} == set(others)
    reasons = {number: reason for _, number, reason in server.absent}
    assert reasons[2] == reasons[5] == reasons[8] == "did not answer within 3 s"
    assert reasons[4] == "answered step 5" and reasons[7] == "sent 0 bytes in place of 12"
    assert set(server.lines) == {1, 3, 4, 6, 7, 9}
    server.finish()


# ---- a batch that processes share ----


@pytest.mark.parametrize("name", helpers.MECHANISMS)
def test_two_processes_end_where_one_ends(launched, name):
    """Parameters, losses, norms and the fraction clipped to 1e-5, and the same epsilon; both processes to the bit."""
    model, found = helpers.network(), launched["two0"]["ends"][name]
    mechanism = helpers.MECHANISMS[name]
    given = {"steps": ranks.STEPS, "trace_every": 4, "test": helpers.data(seed=9)}
    run = helpers.train(model, *helpers.data(), mechanism=mechanism, **given)
    assert torch.equal(found["end"], launched["two1"]["ends"][name]["end"])
    assert (found["end"] - helpers.flat(model)).abs().max() <= 1e-5
    assert (found["end"] - helpers.flat(helpers.network())).abs().max() > 0.01
    assert found["losses"] == pytest.approx(run.trace.loss, rel=1e-5)
    assert found["clipped"] == pytest.approx(run.trace.clipped)
    assert np.array(found["norms"]) == pytest.approx(run.trace.norms, rel=1e-4)
    assert found["epsilon"] == run.guarantee.epsilon


def test_processes_that_do_not_agree_are_refused(launched):
    for rank in ("two0", "two1"):
        refused = launched[rank]["refused"]
        assert refused["generator"] == "generator must be the same in all processes, got another one in process 1"
        assert refused["steps"] == "steps must be the same in all processes, got another one in process 1"


def test_a_lost_process_ends_the_run_with_what_was_spent_and_a_checkpoint(launched):
    """From the checkpoint one process goes on, and ends where an undisturbed run ends."""
    found, whole = launched["lost"], helpers.network()
    straight = helpers.train(whole, *helpers.data(), steps=ranks.STEPS, trace_every=4)
    assert found["error"].startswith("a process of the group of 2 is gone, or did not answer")
    assert f"{ranks.LOST - 1} private steps were done before this. Spent, with the step" in found["notes"][0]
    assert "The same call goes on from there" in found["notes"][0]
    model = helpers.network(3)
    file = launched["folder"] / "lost.ckpt"
    again = helpers.train(model, *helpers.data(), steps=ranks.STEPS, trace_every=4, checkpoint=file)
    assert (helpers.flat(model) - helpers.flat(whole)).abs().max() <= 1e-5
    assert again.guarantee == straight.guarantee and again.trace.steps.tolist() == straight.trace.steps.tolist()


def test_a_group_must_be_one():
    with pytest.raises(ValueError, match=r"^group must be None or a process group such as .*, got 2"):
        helpers.train(helpers.network(), *helpers.data(), group=2)
    assert shared.share_of(None) is shared.ALONE
