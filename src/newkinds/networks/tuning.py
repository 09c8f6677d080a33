"""Which part of a pretrained f is trained further: its last blocks, or all of it."""

from __future__ import annotations

from torch import nn

from newkinds.errors import UsageError
from newkinds.networks.foreign import Foreign
from newkinds.networks.network import Network

BLOCKS = ("blocks", "stages", "layers", "layer4", "features")  # what timm's networks and others call theirs
_HINT = 'Use tune = "none", or "all" where it can be trained.'


def check_last_blocks(network: Network | None) -> None:
    """Raise an error if a network has no last blocks that can be trained, or nobody can tell which they are.

    network: a pretrained one, None if there is none.
    """
    if network is None or not isinstance(network.backbone, Foreign):
        raise UsageError(
            "tune = 'last' is for a network that was pretrained elsewhere; one that is trained here is trained whole.",
            hint="Name one with --network, see `newkinds networks`, or leave --tune out.",
        )
    if not network.has_weights:
        raise UsageError(
            f"tune = 'last' is not possible: the network {network.name!r} has no weights that can be trained.",
            hint="An ONNX file stays as it is: leave --tune out, or name the network itself instead of the file.",
        )
    _last_blocks(network.name, network.backbone.module)


def freeze_but_last(network: Network) -> None:
    """Freeze all weights of a pretrained f but those of its last blocks; see `check_last_blocks`."""
    assert isinstance(network.backbone, Foreign)
    network.requires_grad_(False)
    for part in _last_blocks(network.name, network.backbone.module):
        part.requires_grad_(True)


def _last_blocks(name: str, module: nn.Module) -> list[nn.Module]:
    """Return the last block of a network and what comes behind it.

    A module may say them itself, as the list `last_blocks`; otherwise its children are looked at by name.
    """
    said = getattr(module, "last_blocks", None)
    if said is not None:
        return list(said)
    children = dict(module.named_children())
    found = [child for child in children if child in BLOCKS]
    if not found:
        raise UsageError(
            f"tune = 'last' is not possible: which blocks of the network {name!r} are the last ones cannot be told. "
            f"Its parts are called {', '.join(children) or 'nothing'}; looked for: {', '.join(BLOCKS)}.",
            hint=f"{_HINT} A function of yours may set the attribute last_blocks, a list of modules.",
        )
    blocks = children[found[-1]]
    behind = list(children.values())[list(children).index(found[-1]) + 1 :]
    inner = list(blocks.children())
    return [inner[-1] if inner else blocks, *behind]
