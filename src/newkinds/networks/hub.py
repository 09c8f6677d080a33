"""Networks of timm, with the weights that the Hugging Face hub has of them as safetensors."""

from __future__ import annotations

import importlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from newkinds.errors import UsageError, told

TIMM = "timm:"
DINOV2 = "timm:vit_small_patch14_dinov2.lvd142m"  # the recommended one
FILE = "model.safetensors"  # of a repository of the hub; what else it has may run code
HUB_SECONDS = 5.0  # for which the hub is waited for before it counts as out of reach
# Transformers that were trained at more than this, as DINOv2 at 518, are given pictures of SIDE: a fifth of the work.
LARGEST_SIDE, SIDE = 384, 224


def open_timm(name: str, pretrained: bool, offline: bool) -> tuple[nn.Module, tuple[str, ...], str]:
    """Return a network of timm, the prefixes of its classifier's weights, and its licence ("" if timm has none).

    The module has the attributes `input_size`, `mean` and `std`. pretrained: whether to load the hub's weights, from
    the local cache or, unless `offline`, downloaded.
    """
    timm = _imported("timm", name)
    called = name.removeprefix(TIMM)
    with _explained(timm, name):
        config = timm.get_pretrained_cfg(called)
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0}
    fixed = config is not None and config.fixed_input_size
    if fixed:
        options["dynamic_img_size"] = True
    if pretrained and config is not None:
        file = _weights(name, config.hf_hub_id, offline)
        options |= {"pretrained": True, "pretrained_cfg_overlay": {"file": file, "custom_load": False}}
    with _explained(timm, name):
        module = _created(timm, called, options)
    if pretrained and config is None:
        raise _no_weights(name)
    known = _imported("timm.data", name).resolve_model_data_config(module)
    side = int(known["input_size"][-1])
    is_flexible = fixed and "dynamic_img_size" in options
    module.input_size = SIDE if is_flexible and side > LARGEST_SIDE else side  # type: ignore[assignment]
    module.mean, module.std = known["mean"], known["std"]
    head = getattr(module, "pretrained_cfg", {}).get("classifier") or ()
    return module, (head,) if isinstance(head, str) else tuple(head), (config and config.license) or ""


def _imported(module: str, name: str) -> Any:
    """Import a module of timm for the network called `name`."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # beside another torch than its own, torchvision raises a RuntimeError
        missing = isinstance(error, ModuleNotFoundError) and error.name == "timm"
        why = "is not installed" if missing else f"cannot be imported: {told(error)}"
        raise UsageError(
            f"The network {name!r} needs timm, which {why}.", hint="Install it with: pip install 'newkinds[timm]'"
        ) from error


@contextmanager
def _explained(timm: Any, name: str) -> Iterator[None]:
    """Explain an error of timm's, most often that of a name it does not know."""
    try:
        yield
    except Exception as error:
        raise UsageError(
            f"The network {name!r} cannot be built by timm {timm.__version__}: {told(error)}.",
            hint="timm.list_pretrained() has the names, in Python.",
        ) from error


def _created(timm: Any, called: str, options: dict[str, Any]) -> nn.Module:
    """Return timm's module; `dynamic_img_size` is removed from the options if it takes a single size only."""
    try:
        module: nn.Module = timm.create_model(called, **options)
    except TypeError:
        if options.pop("dynamic_img_size", None) is None:
            raise
        module = timm.create_model(called, **options)
    return module


def _weights(name: str, repository: str | None, offline: bool) -> str:
    """Return the file of a network's weights, from the local cache of the hub or downloaded into it."""
    if not repository:
        raise _no_weights(name)
    hub = importlib.import_module("huggingface_hub")
    known = importlib.import_module("huggingface_hub.constants")
    found = hub.try_to_load_from_cache(repository, FILE, cache_dir=known.HF_HUB_CACHE)
    if isinstance(found, str):
        return found
    if offline or known.HF_HUB_OFFLINE:
        raise _not_at_hand(name, repository, known, "nothing may be downloaded (--offline or HF_HUB_OFFLINE)")
    if (why := _unreachable(known.ENDPOINT)) is not None:
        raise _not_at_hand(name, repository, known, f"{known.ENDPOINT} cannot be reached ({why})")
    try:
        return str(hub.hf_hub_download(repository, FILE))
    except Exception as error:  # of HTTP, of the disk, of the repository
        raise _not_at_hand(name, repository, known, f"it cannot be downloaded ({told(error)})") from error


def _no_weights(name: str) -> UsageError:
    return UsageError(
        f"timm knows no weights of {name!r} on the hub.",
        hint=f"Give them with --weights FILE.safetensors --network {name}, or choose another network.",
    )


def _not_at_hand(name: str, repository: str, known: Any, why: str) -> UsageError:
    """Return the error for weights that are neither in the cache nor to be had; known: the hub's constants."""
    folder, cache, address = f"models--{repository.replace('/', '--')}", known.HF_HUB_CACHE, known.ENDPOINT
    return UsageError(
        f"The weights of {name!r} are not in the cache, {cache}/{folder}, and {why}.",
        hint=f"Download {address}/{repository}/resolve/main/{FILE} elsewhere and give it: --network {name} --weights "
        f"{FILE}. Or copy the folder {folder} from the cache of a machine that has it.",
    )


def _unreachable(address: str) -> str | None:
    """Return why a server does not answer within a few seconds, None if it does, whatever it answers.

    The hub's own library tries for most of a minute. In a thread: looking for the name of a host has no time limit.
    """
    failed: list[str | None] = [f"no answer in {HUB_SECONDS:g} s"]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=HUB_SECONDS).close()
            failed[0] = None
        except urllib.error.HTTPError:
            failed[0] = None
        except Exception as error:
            failed[0] = str(getattr(error, "reason", error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(HUB_SECONDS)
    return failed[0]
