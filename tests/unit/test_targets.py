import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.targets import CountedTarget, Density, Ledger, Purpose

LAYOUT = Layout([interval(-1.0, 2.0), interval(0.0, 1.0)])


def test_every_evaluation_is_counted_by_purpose_with_gradients_and_failures() -> None:
    target = CountedTarget(Density(lambda x: x.log().sum(1), LAYOUT))
    target.evaluate(torch.tensor([[1.0, 0.5], [-1.0, 0.5], [0.0, 0.5]]), Purpose.TRAINING)
    target.evaluate(torch.ones(4, 2, requires_grad=True), Purpose.TRAINING)
    target.evaluate(torch.ones(5, 2), Purpose.EVALUATION)
    assert target.ledger["training"] == 7
    assert target.ledger["training_gradients"] == 4
    assert target.ledger["evaluation"] == 5
    assert target.ledger["failed"] == 2
    assert target.ledger.total == 12
    assert Ledger(target.ledger.to_json()).to_json() == target.ledger.to_json()


def test_a_callable_of_the_wrong_shape_is_named() -> None:
    target = Density(lambda x: x, LAYOUT, name="mine")
    with pytest.raises(InputError, match=r"mine: expected a tensor of shape \(3,\), got \(3, 2\)"):
        target.evaluate(torch.zeros(3, 2))
