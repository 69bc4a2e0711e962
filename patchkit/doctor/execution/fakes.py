"""Stand-ins with which a tree's settings run: torch with a GPU that is not there, transformers, and no hub.

Only for the child process: it replaces attributes of standard modules.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.machinery
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

from patchkit.verify import stand_ins
from patchkit.verify.stand_ins import AnyName, Meta, stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.doctor.execution.gpus import Gpu

# What every server has; settings do not depend on more of them than these stand-ins know.
_PRESENT = frozenset(
    {"flashinfer", "huggingface_hub", "sgl_kernel", "torch", "torchvision", "transformers", "triton"}
)
# The tree's own code for a GPU: its modules compile it, or look for files that are not Python's.
_KERNELS = re.compile(r"\w+\.(jit_kernel|kernels\.jit)(\.|$)")
# Whether these are there decides a setting, and most servers do not have them.
_ABSENT = frozenset(
    {
        *("habana_frameworks", "intel_extension_for_pytorch", "mlx", "nixl_ep", "ray", "sgl_kernel_npu"),
        *("torch_musa", "torch_npu", "torchada"),
    }
)
_ON_AMD = frozenset({"aiter"})
_SUPPORTED = re.compile(r"apache|flashinfer|kernels|nvidia|quack|sgl|torch|transformers|triton")
_ADAPTERS = "/sys/class/infiniband"
_VERSION = "99.0.0"
_TYPES = (
    "bfloat16 bool complex64 double float float16 float32 float64 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int16 int32 int64 int8 long short uint16 uint32 uint64 uint8"
)
_PARTS = (
    "_dynamo _inductor backends cuda distributed fx library mps multiprocessing nn profiler utils version xpu"
)


class SettingsFinder(stand_ins.Finder):
    """Finds stand-ins with a version for packages that are not installed."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return an empty stand-in with a version."""
        made = AnyName(spec.name)
        setattr(made, "__version__", _VERSION)  # noqa: B010  # Modules have no such attribute by their type.
        return made


class Present(SettingsFinder):
    """Finds stand-ins for what every server has, also where it is installed, and for the tree's kernels."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a stand-in of what every server has."""
        is_present = fullname.partition(".")[0] in _PRESENT or (
            fullname.partition(".")[0] in self._own and _KERNELS.match(fullname) is not None
        )
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if is_present else None


class Installed(importlib.machinery.PathFinder):
    """Finds installed packages but those that a server is not to have."""

    absent = _ABSENT

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for an installed package, None for one that is to be missing."""
        return None if fullname.partition(".")[0] in cls.absent else super().find_spec(fullname, path, target)


def install(gpu: Gpu, package: str) -> None:
    """Replace what a tree's settings ask of the machine: packages, versions, the GPU, programs and the hub."""
    Installed.absent = _ABSENT if gpu.is_amd else _ABSENT | _ON_AMD
    usual = [finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder]
    sys.meta_path[:] = [Present(package), *usual, Installed, SettingsFinder(package, absent=Installed.absent)]
    for name, value in {"__int__": 0, "__index__": 0, "__float__": 0.0, "__len__": 0}.items():
        setattr(Meta, name, lambda _, value=value: value)
    operators = (
        "add and enter exit floordiv invert lshift mod mul neg pow radd rand rmul rpow rshift rsub rtruediv"
    )
    for name in (*operators.split(), "sub", "truediv"):
        setattr(Meta, f"__{name}__", lambda self, *_: self)
    asyncio.set_event_loop_policy = lambda policy: None
    _versions()
    _hub()
    _transformers()
    _torch(gpu)
    have_programs(gpu)
    # Libraries are looked up by programs, too.
    importlib.import_module("ctypes.util").find_library = lambda _: None  # type: ignore[attr-defined]


def _versions() -> None:
    """Let every package of a server that is not installed have a recent version."""
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name.partition("-")[0] in _PRESENT:
            return _VERSION
        try:
            return installed(name)
        except importlib.metadata.PackageNotFoundError:
            if _SUPPORTED.match(name):
                return _VERSION
            raise

    importlib.metadata.version = version  # type: ignore[assignment]  # Its parameter has another name in each Python.


def _refuse(*_: Any, **__: Any) -> Any:
    raise OSError("the settings are executed without a hub")


def _hub() -> None:
    hub: Any = importlib.import_module("huggingface_hub")
    errors = (
        "EntryNotFoundError GatedRepoError HFValidationError HfHubHTTPError LocalEntryNotFoundError "
        "OfflineModeIsEnabled RepositoryNotFoundError RevisionNotFoundError"
    )
    for module in ("huggingface_hub", "huggingface_hub.errors", "huggingface_hub.utils"):
        for name in errors.split():
            setattr(importlib.import_module(module), name, type(name, (OSError,), {}))
    for name in ("hf_hub_download", "model_info", "snapshot_download"):
        setattr(hub, name, _refuse)
    hub.file_exists = lambda *_, **__: False
    hub.try_to_load_from_cache = lambda *_, **__: None
    hub.HfFileSystem = type("HfFileSystem", (), {"__init__": _refuse})
    hub.constants = importlib.import_module("huggingface_hub.constants")
    hub.constants.HF_HUB_CACHE, hub.constants.HF_HUB_OFFLINE = os.path.abspath("hub"), True


class Config:
    """A model's configuration: what its ``config.json`` says, with the defaults that code reads of every model."""

    model_type = ""
    attribute_map: Mapping[str, str] = {}
    sub_configs: Mapping[str, Any] = {}
    __class_validators__: Sequence[Any] = ()

    def __init_subclass__(cls, **_: Any) -> None:
        """Accept what transformers' own classes take."""

    def __init__(self, *_: Any, **given: Any) -> None:
        defaults = {
            **dict.fromkeys(("architectures", "bos_token_id", "eos_token_id", "pad_token_id")),
            **dict.fromkeys(("rope_scaling", "torch_dtype")),
            **{
                "tie_word_embeddings": True,
                "is_encoder_decoder": False,
                "name_or_path": "",
                "_name_or_path": "",
            },
        }
        for name, value in (defaults | given).items():
            if name in given or name not in self.__dict__:
                try:
                    setattr(self, name, value)
                except AttributeError:  # A property of the tree's own class.
                    continue

    @property
    def dtype(self) -> Any:
        """The type of the weights, by its present name or by its former one."""
        return self.__dict__.get("dtype") or self.__dict__.get("torch_dtype")

    @dtype.setter
    def dtype(self, value: Any) -> None:
        self.__dict__["dtype"] = value

    @classmethod
    def get_config_dict(cls, path: str, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the content of a model's file."""
        file = path if os.path.isfile(path) else os.path.join(path, "config.json")
        if not os.path.isfile(file):
            raise OSError(f"{path} has no config.json")
        with open(file, encoding="utf-8") as text:
            return json.load(text), {}

    @classmethod
    def from_dict(cls, content: dict[str, Any], **_: Any) -> Any:
        """Return the configuration with this content."""
        return cls(**content)

    @classmethod
    def from_pretrained(cls, path: str, *_: Any, **__: Any) -> Any:
        """Return the configuration of a model's folder."""
        return cls.from_dict(cls.get_config_dict(path)[0])

    def to_dict(self) -> dict[str, Any]:
        """Return the content."""
        return {
            name: value.to_dict() if isinstance(value, Config) else value
            for name, value in self.__dict__.items()
        }

    to_diff_dict = to_dict

    def update(self, changes: Mapping[str, Any]) -> None:
        """Set attributes."""
        self.__dict__.update(changes)

    def get_text_config(self, *_: Any, **__: Any) -> Any:
        """Return the part about the language model."""
        return getattr(self, "text_config", self)

    def standardize_rope_params(self) -> None:
        """Do nothing: no setting depends on it."""

    validate_rope = standardize_rope_params


class GenericConfig(Config):
    """The configuration of a model for which the tree has no class: parts of it are configurations, too."""

    def __init__(self, *_: Any, **given: Any) -> None:
        kept = ("quantization_config", "compression_config")
        made = {
            name: GenericConfig(**value)
            if isinstance(value, dict) and name.endswith("_config") and name not in kept
            else value
            for name, value in given.items()
        }
        if "num_attention_heads" in given:
            heads = given["num_attention_heads"]
            usual = {"num_key_value_heads": heads, "max_position_embeddings": 32768, "vocab_size": 32000}
            made = usual | made
        super().__init__(**made)


class AutoConfig:
    """Chooses the class of a configuration by its type, among those that the tree registers."""

    registered: dict[str, Any] = {}  # noqa: RUF012  # The tree reads and changes it as transformers' own.

    @classmethod
    def register(cls, name: str, config: Any, exist_ok: bool = False) -> None:
        """Register a class."""
        cls.registered[name] = config

    @classmethod
    def from_pretrained(cls, path: str, *_: Any, **__: Any) -> Any:
        """Return the configuration of a model's folder."""
        content = Config.get_config_dict(path)[0]
        return cls.registered.get(str(content.get("model_type")), GenericConfig).from_dict(content)


class Registry(dict[str, Any]):
    """Transformers' table of configuration classes, with the names under which the tree changes it."""

    _extra_content = AutoConfig.registered
    _mapping: Mapping[str, Any] = {}

    def register(self, name: str, config: Any, exist_ok: bool = False) -> None:
        """Register a class."""
        self[name] = AutoConfig.registered[name] = config


class NamesConfigs(AnyName):
    """Transformers itself: each of its ``…Config`` classes is a class that can be derived from."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith("Config") and not name.startswith("_"):
            made = type(name, (GenericConfig,), {})
            setattr(self, name, made)
            return made
        return super().__getattr__(name)


def _transformers() -> None:
    top: Any = importlib.import_module("transformers")
    top.__class__ = NamesConfigs
    generation = type("GenerationConfig", (Config,), {"from_pretrained": classmethod(_refuse)})
    for module in (
        "",
        ".configuration_utils",
        ".models.auto",
        ".models.auto.configuration_auto",
        ".models.auto.modeling_auto",
    ):
        loaded: Any = importlib.import_module(f"transformers{module}")
        loaded.PretrainedConfig = loaded.PreTrainedConfig = Config
        loaded.AutoConfig, loaded.GenerationConfig = AutoConfig, generation
        loaded.CONFIG_MAPPING = Registry()
        loaded.CONFIG_MAPPING_NAMES = {}
        loaded.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = {}
        loaded.layer_type_validation = lambda *_, **__: None


class DataType:
    """A type of numbers."""

    is_floating_point = True
    itemsize = 2

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"


class WithoutDevices(AnyName):
    """Torch itself: it has every name but those of accelerators that a server with a GPU has not."""

    def __getattr__(self, name: str) -> Any:
        if name in ("hpu", "mtia", "musa", "npu"):
            raise AttributeError(name)
        return super().__getattr__(name)


def _plain(name: str, **members: Any) -> type:
    return type(name, (), {"__init__": lambda self, *_, **__: None, **members})


def _torch(gpu: Gpu) -> None:
    torch: Any = importlib.import_module("torch")
    torch.__class__ = WithoutDevices
    torch.__version__ = "2.11.0"
    torch.dtype = DataType
    for name in _TYPES.split():
        setattr(torch, name, DataType(name))
    torch.finfo = torch.iinfo = lambda _: types.SimpleNamespace(max=448.0, min=-448.0, bits=8)
    for name in ("Generator", "Size", "Tensor", "device"):
        setattr(torch, name, _plain(name))
    for name in _PARTS.split():
        setattr(torch, name, importlib.import_module(f"torch.{name}"))
    torch.nn.Module = _plain("Module", __getattr__=_of_module)
    torch.nn.Parameter = type("Parameter", (torch.Tensor,), {})
    torch.xpu.is_available = torch.mps.is_available = lambda: False
    torch.backends.mps = types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
    torch.get_num_threads = lambda: 1
    nothing = {name: lambda *_, **__: None for name in ("_register_fake", "define", "impl")}
    torch.library.Library = type(
        "Library", (), {"__init__": lambda self, ns="", *_, **__: setattr(self, "ns", str(ns)), **nothing}
    )
    torch.library.infer_schema = lambda *_, **__: "()"
    torch.version.cuda, torch.version.hip = (None, "7.0.0") if gpu.is_amd else ("13.0", None)
    torch.version.xpu = torch.version.musa = None
    have_gpu(torch.cuda, gpu)
    torch.cuda.is_initialized = lambda: True
    triton: Any = importlib.import_module("triton")
    triton.__version__ = "3.6.0"
    triton.cdiv = lambda one, other: -(-one // other)
    triton.next_power_of_2 = lambda number: 1 << (number - 1).bit_length()
    target = types.SimpleNamespace(backend="hip" if gpu.is_amd else "cuda", arch=gpu.capability[0] * 10)
    limits = {
        "max_shared_mem": torch.cuda.get_device_properties().shared_memory_per_block_optin,
        "multiprocessor_count": gpu.processors,
    }
    active = types.SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_active_torch_device=lambda: "cuda",
        utils=types.SimpleNamespace(get_device_properties=lambda *_: limits),
    )
    triton.runtime = importlib.import_module("triton.runtime")
    triton.runtime.driver = types.SimpleNamespace(active=active)


def have_gpu(cuda: Any, gpu: Gpu) -> None:
    """Let ``torch.cuda``, a stand-in's or the real one, answer as on a machine with eight of these GPUs."""
    memory = gpu.memory << 20
    properties = types.SimpleNamespace(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=memory,
        multi_processor_count=gpu.processors,
        gcnArchName=gpu.gcn,
        warp_size=64 if gpu.is_amd else 32,
        shared_memory_per_block_optin=65536 if gpu.is_amd else 232448,
    )
    for name, value in {
        "current_device": 0,
        "device_count": 8,
        "empty_cache": None,
        "get_device_capability": gpu.capability,
        "get_device_name": gpu.name,
        "get_device_properties": properties,
        "is_available": True,
        "mem_get_info": (memory, memory),
        "set_device": None,
        "synchronize": None,
    }.items():
        setattr(cuda, name, lambda *_, value=value, **__: value)


def _of_module(_: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return stand_in(f"torch.nn.Module.{name}")


def have_adapters(names: Sequence[str]) -> None:
    """Let the machine have network adapters of these names, which are those that a launch may name."""
    is_folder, listed = os.path.isdir, os.listdir
    os.path.isdir = lambda s: s == _ADAPTERS or is_folder(s)
    os.listdir = lambda path=".": [*names] if path == _ADAPTERS else listed(path)  # type: ignore[assignment]


def have_programs(gpu: Gpu, other: Callable[..., Any] | None = None) -> None:
    """Answer what the tree asks the driver's own programs; ``other`` runs the others, and without it none starts."""

    def run(command: Any, *words: Any, **named: Any) -> Any:
        line = command if isinstance(command, str) else " ".join(map(str, command))
        if "memory.total" in line:
            return subprocess.CompletedProcess(command, 0, f"{gpu.memory}\n", "")
        if "rocminfo" in line:
            return subprocess.CompletedProcess(command, 0, f"{gpu.memory << 10}\n", "")
        if "compute_cap" in line:
            return subprocess.CompletedProcess(command, 0, "{}.{}\n".format(*gpu.capability), "")
        if other is None:
            raise FileNotFoundError(f"the settings are executed without {line[:80]}")
        return other(command, *words, **named)

    subprocess.run = run  # type: ignore[assignment]
