"""GCD (Vaze et al. 2022): contrastive learning on labelled and unsorted pictures, then semi-supervised k-means.

    (1 - lambda) InfoNCE(all pictures) + lambda SupCon(labelled pictures)

trains f, or a linear layer behind a frozen f. Then k-means on what it makes of all pictures, at length 1: labelled ones
stay in their kinds' clusters, unsorted ones go where they are nearest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from newkinds.features import model_outputs
from newkinds.methods.base import Method, Problem, Solution
from newkinds.methods.contrast import (
    Contrast,
    Contrasted,
    ContrastTask,
    DirectionsHead,
    learnt_directions,
    own_network,
    suited_augmentation,
)
from newkinds.methods.semi_supervised import semi_supervised_centres
from newkinds.networks import Model
from newkinds.parallel.processes import from_writer
from newkinds.settings.base import Restarts
from newkinds.training import Phase


class Gcd(Contrast):
    """Contrastive learning and semi-supervised k-means (method gcd)."""

    restarts: Restarts = Field(
        20, description="How often k-means begins anew; the best outcome is kept. Published: 100."
    )
    scale: float = Field(
        5.0, gt=0, description="How much surer a nearer kind makes: the factor on squared distances; k-means has none."
    )


class GcdTask(ContrastTask):
    """The contrastive losses alone."""

    stage = "gcd"
    title = "Learning from views and labels"

    def __init__(self, problem: Problem, settings: Gcd) -> None:
        super().__init__(problem, settings)
        self.contrasted = Contrasted(own_network(problem), settings.projection, self.seed)
        self.module: nn.Module = self.contrasted

    def losses(self, outputs: Tensor, items: NDArray[np.int64], epoch: int) -> dict[str, Tensor]:
        """Return both contrastive losses and their weighted sum."""
        return self.contrast(outputs, items)


def gcd(problem: Problem) -> Solution:
    """Train on all pictures, then cluster them; f itself is left as it is."""
    problem.check_kinds()
    chosen = problem.settings.section(Gcd)
    task = GcdTask(problem, chosen)
    problem.train(task, Phase("main", chosen.epochs, chosen))
    contrasted = task.contrasted.float().eval()
    unsorted, known = learnt_directions(contrasted, problem)
    centres = from_writer(lambda: semi_supervised_centres(problem, unsorted, known, chosen.restarts))
    model = Model(contrasted.network, contrasted.head(centres, chosen.scale)).eval()
    said = model_outputs(model, problem.unsorted)
    return Solution(problem.assign(np.exp(said.log_p)), said.embedding, model=model, features=said.features)


METHODS = (
    Method(
        "gcd",
        "contrast of views and labels, then semi-supervised k-means (Vaze et al. 2022)",
        gcd,
        {"gcd": Gcd},
        assigns="gcd",
        resolve=lambda settings, known: suited_augmentation("gcd", settings.section(Gcd), known),
        takes_known=True,
        heads=(DirectionsHead,),
    ),
)
