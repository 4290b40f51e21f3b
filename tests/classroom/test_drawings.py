"""The parts of a drawing: their looks and inks are those of their roles."""

import matplotlib.colors
import pytest

from dpml.classroom import drawings, figures
from dpml.classroom.marks import COLOURS, INKS


def test_a_drawing_has_the_looks_of_its_roles_and_can_be_read_on_a_phone():
    figure, axes = drawings.sheet(width=10, height=5)
    assert tuple(figure.get_size_inches()) == pytest.approx((drawings.WIDTH, drawings.WIDTH / 2))
    for write in (drawings.words, drawings.box):
        write(axes, 1, 1, "word", "D'")
    drawings.dots(axes, [1], [2], "D'")
    drawings.rings(axes, [1], [2], "D")
    drawings.arrow(axes, (0, 0), (1, 1), "D'")
    *texts, head = axes.texts
    assert [text.get_color() for text in texts] == 2 * [INKS["D'"]]
    assert {text.get_fontsize() * 320 / (drawings.WIDTH * 72) >= 9 for text in texts} == {True}
    marks = [(line.get_marker(), line.get_markerfacecolor()) for line in axes.lines]
    assert marks == [("s", COLOURS["D'"]), ("o", "white")]
    assert head.arrow_patch.get_edgecolor() == pytest.approx(matplotlib.colors.to_rgba(COLOURS["D'"]))
    figures.show(figure, alt="A drawing of all its parts.")
    with pytest.raises(ValueError, match="role"):
        drawings.dots(axes, [1], [2], "nobody")
