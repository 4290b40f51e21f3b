"""Algorithm 4 on three processes ends where the same training in one process ends, and goes on when one is lost."""

import functools

import pytest
import torch

from dpml.certified.stobatch import distributed, training
from dpml.training.messages import Server
from tests.certified import ranks
from tests.launching import launch
from tests.training.helpers import refuses


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """What the three processes of `ranks.py` left."""
    codes, found = launch(ranks.main, tmp_path_factory.mktemp("launched"), size=3)
    assert codes == [0, 0, 0]
    return found


def test_processes_end_where_one_process_ends(launched):
    """To the last bit, parameters, noise and statistics."""
    first, given = ranks.arguments()
    run = training.train(*first, **given, schedule=training.stochastic(2))
    assert torch.equal(launched["whole"]["end"], ranks.flat(run.network))
    torch.testing.assert_close(launched["whole"]["losses"], run.losses)
    assert launched["whole"]["says"] == run.says


def test_the_server_goes_on_without_a_trainer_that_is_gone(launched):
    """From its third step on with the gradients of the other alone."""
    first, given = ranks.arguments()
    run = training.prepare(*first, **given)

    def found(step, pairs, seeds):
        some = [i for i, (one, _) in enumerate(pairs) if not (step + 1 >= ranks.LOST and one // 2 == 1)]
        return [training.step_gradients(run, pairs[i], seed=seeds[i]) for i in some]

    network = training.descend(run, schedule=training.stochastic(2), gradients=found).network
    assert torch.equal(launched["lossy"]["end"], ranks.flat(network))
    assert launched["lossy"]["absent"] == [(ranks.LOST, 2, "is gone")]
    assert launched["lossy"]["said"] == [
        "worker 2 is gone, in step 3: the server goes on; 1 of 2 workers are connected"
    ]


def test_a_step_without_any_gradient_changes_nothing():
    first, given = ranks.arguments(steps=3)
    before = first[0].theta1.detach().clone()
    run = training.prepare(*first, **given)
    losses = training.descend(run, schedule=training.stochastic(1), gradients=lambda *step: []).losses
    assert torch.equal(before, first[0].theta1) and bool(losses.isnan().all())


def test_what_processes_refuse():
    first, given = ranks.arguments()
    here = functools.partial(distributed.distribute, *first, **given)
    good = {"trainers": 2, "place": (0, Server({}, 2))}
    refuses(here, good, place=((0, Server({}, 3)),), trainers=(3, 0), seconds=(0.0,))
    refuses(here, good, m=({"settings": training.Settings(m=30, steps=1)},))
    with pytest.raises(ConnectionError, match=r"^no trainer is left in step 1"):
        here(**good)
