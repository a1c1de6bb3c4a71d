"""Parts of a pod that a manifest passes on, as Kubernetes names them."""

from typing import Annotated, Literal

from pydantic import Field

from awa.manifest.part import ClusterOnly, Part
from awa.manifest.values import (
    ENV_NAME,
    MAX_ITEMS,
    Bool,
    Distinct,
    Int,
    LongText,
    Name,
    Quantities,
    Quantity,
)

_CLUSTER_OBJECTS = ClusterOnly("there is no cluster to take it from")

EnvName = Annotated[str, Field(min_length=1, max_length=256, pattern=ENV_NAME)]


class KeySelector(Part):
    """One key of a Secret or ConfigMap of the same namespace."""

    name: Name
    """Name of the Secret or ConfigMap."""
    key: Name
    """Key within it."""
    optional: Bool | None = None
    """Whether it may be absent."""


class FieldSelector(Part):
    """A field of the pod."""

    field_path: Name
    """Path of the field, such as `metadata.name`."""
    api_version: Name | None = None
    """Version of the schema that the path is written in."""


class ResourceFieldSelector(Part):
    """A resource of the container."""

    resource: Name
    """The resource, such as `limits.cpu`."""
    container_name: Name | None = None
    """The container; this one if not set."""
    divisor: Quantity | None = None
    """The unit of the value."""


class EnvSource(Part):
    """Where the value of an environment variable comes from."""

    secret_key_ref: KeySelector | None = None
    """A key of a Secret."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource of the container."""


class EnvVar(Part):
    """One environment variable: a value, or where to take it from."""

    name: EnvName
    """Name of the variable. `AWA_DATABASE_URL`, `AWA_QUEUE` and the other names that Awa sets win
    over yours."""
    value: LongText | None = None
    """The value; `$(NAME)` refers to a variable set before."""
    value_from: Annotated[EnvSource | None, _CLUSTER_OBJECTS] = None
    """Take the value from a Secret, a ConfigMap or the pod."""


class ObjectRef(Part):
    """An object of the same namespace, by name."""

    name: Name
    """Name of the object."""


class OptionalRef(ObjectRef):
    """An object of the same namespace that may be absent."""

    optional: Bool | None = None
    """Whether it may be absent."""


class EnvFrom(Part):
    """All keys of a Secret or ConfigMap as environment variables."""

    prefix: Annotated[str, Field(max_length=256)] | None = None
    """Put before each name."""
    secret_ref: OptionalRef | None = None
    """The Secret."""
    config_map_ref: OptionalRef | None = None
    """The ConfigMap."""


class Resources(Part):
    """What a container asks for and may use."""

    requests: Quantities | None = None
    """Asked for and kept free, such as `{cpu: 100m, memory: 128Mi}`."""
    limits: Quantities | None = None
    """The most it may use."""


class Toleration(Part):
    """A taint of nodes that does not keep the pods away."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Key of the taint; every taint if not set."""
    operator: Literal["Equal", "Exists"] | None = None
    """Whether the value counts."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect if not set."""
    toleration_seconds: Annotated[Int, Field(ge=0, le=31536000)] | None = None
    """How long pods stay after a `NoExecute` taint."""


EnvList = Annotated[
    tuple[EnvVar, ...],
    Field(
        max_length=MAX_ITEMS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
    Distinct,
]
EnvFromList = Annotated[tuple[EnvFrom, ...], Field(max_length=MAX_ITEMS)]
