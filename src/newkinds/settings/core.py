"""The settings that every run has: top-level ones, and a section for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from pydantic import Field, field_validator
from typing_extensions import Self

from newkinds.errors import unknown_name
from newkinds.networks.catalogue import NETWORKS
from newkinds.networks.foreign import FOREIGN, is_foreign
from newkinds.settings.base import EVERYDAY, Positive, Section
from newkinds.settings.count import Count
from newkinds.settings.files import checked, merge
from newkinds.settings.images import Images
from newkinds.settings.initialise import Initialise
from newkinds.settings.pretrain import Pretrain
from newkinds.settings.rehearse import Rehearse
from newkinds.settings.transfer import Transfer

S = TypeVar("S", bound=Section)


class CoreSettings(Section):
    """The settings of a run except for those of its method, which each method brings; see `newkinds.configure`."""

    seed: int = Field(
        0,
        ge=0,
        description="What all randomness is derived from. The same seed gives the same result to the byte; others show "
        "how much depends on chance.",
        json_schema_extra=EVERYDAY,
    )
    profile: Literal["auto", "photos", "pictures", "characters", "embeddings", "none"] = Field(
        "auto",
        description="Which values stand in place of the defaults below, for a sort of pictures; `newkinds profiles "
        'NAME` shows them. "photos": a pretrained network, whose features are not trained further; "embeddings": '
        'features of your own; "pictures" and "characters": a network that learns here, from colour or grey pictures. '
        '"none": the defaults as they are. "auto": the one for where f comes from.',
        json_schema_extra=EVERYDAY,
    )
    method: str = Field(
        "",
        description='How the unsorted pictures are sorted. "dtc" is the paper\'s deep transfer clustering; `newkinds '
        "methods` says what the others are, and `newkinds compare` tries several.",
        json_schema_extra=EVERYDAY,
    )
    kinds: Annotated[int, Field(json_schema_extra={"minimum": 2})] | Literal["auto"] = Field(
        "auto",
        description='How many new kinds there are. Say it where you know it; "auto" estimates it, see the section '
        "[count].",
        json_schema_extra=EVERYDAY,
    )
    none: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="The share of pictures of known and new kinds that may be called none of these by mistake: the "
        "larger, the more that are of no kind are found. 0 calls nothing that. In `predict`, and in the heap for what "
        "is clearly strange, unless it is said to be of new kinds only; both where f is not trained here.",
    )
    heap: Literal["auto", "new", "mixed"] = Field(
        "auto",
        description='What the unsorted pictures may be of. "new": new kinds only, as in the paper: every picture is '
        'put into one. "mixed": known kinds, too, whose pictures are named by them. "auto": it is found out whether '
        "there are pictures of known kinds among them, and said.",
        json_schema_extra=EVERYDAY,
    )
    network: str = Field(
        "auto",
        description="The backbone f, which makes features of pictures: one that is trained here or a pretrained one, "
        'by its name; one of timm; an ONNX file; or one from code of your own. "auto": for photographs of more than 48 '
        "pixels, in colour or grey, a pretrained one, if one is installed; otherwise one that is trained here, a VGG6 "
        "for grey pictures, a ResNet18 for colour ones; without a GPU at a quarter of the width, and a VGG6 for colour "
        "pictures of up to 48 pixels, too.",
        json_schema_extra={
            **EVERYDAY,
            "format": 'a name from `newkinds networks`, timm:NAME, FILE.onnx, module:function or "auto"',
        },
    )
    precision: Literal["auto", "bfloat16", "float32", "float64"] = Field(
        "auto",
        description='The numbers that training computes with. "bfloat16" takes about half as long where the processor '
        'multiplies in it, with three digits; "float64" takes two to three times as long and gives the same kinds '
        'with any number of processes. "auto": bfloat16 on GPUs that multiply in it, float32 elsewhere.',
    )
    network_size: Positive | Literal["auto"] = Field(
        "auto",
        description="The side in pixels that pictures are scaled to before they enter f. Lower it where a pretrained "
        'network is too slow. "auto": the size that f was trained with, otherwise that of the pictures.',
    )
    network_features: Literal["auto", "last", "stages"] = Field(
        "auto",
        description='Which layers of f the features are of. "last": the last one. "stages", of the networks '
        "efficientnet-lite: the means of the last three stages beside it, which tell kinds apart that ImageNet does "
        'not have. "auto": "stages" where f has them.',
    )
    tune: Literal["auto", "none", "last", "all"] = Field(
        "auto",
        description='Which part of f discovery trains. "none": f is frozen: its features are computed once, the known '
        'kinds say what matters in them ([transfer]), and only what tells the kinds apart is trained. "last": from '
        'there on, the last blocks of a pretrained f are trained, too, which takes many times as long. "all": all of '
        'f, as in the paper. "auto": none of a network that was pretrained elsewhere, all of one that was trained '
        "here.",
        json_schema_extra=EVERYDAY,
    )
    images: Images = Images()
    pretrain: Pretrain = Pretrain()
    transfer: Transfer = Transfer()
    count: Count = Count()
    rehearse: Rehearse = Rehearse()
    initialise: Initialise = Initialise()

    @field_validator("kinds")
    @classmethod
    def _at_least_two(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 2:
            raise ValueError(f"{value} is too few: a set of pictures is sorted into 2 kinds or more, or 'auto'")
        return value

    @field_validator("network")
    @classmethod
    def _known_network(cls, value: str) -> str:
        if value != "auto" and value not in NETWORKS and not is_foreign(value):
            raise ValueError(str(unknown_name("network", value, ["auto", *NETWORKS, *FOREIGN])))
        return value

    def said(self, dotted: str) -> bool:
        """Return whether a value was given, by its dotted key, instead of being left to its default."""
        section, _, last = dotted.rpartition(".")
        return last in (getattr(self, section) if section else self).model_fields_set

    def section(self, kind: type[S]) -> S:
        """Return the settings of one method, by their class."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if type(value) is kind:
                return value
        raise TypeError(f"{type(self).__name__} has no section {kind.__name__}: is its method registered?")

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return settings with dotted keys ("pretrain.epochs") replaced, checked again."""
        return checked(type(self), merge(self.model_dump(exclude_unset=True), changes))

    def to_toml(self) -> str:
        """Return all values as TOML."""
        return tomli_w.dumps(self.model_dump(mode="json"))
