"""An empty torchvision: MosaicML Streaming imports it, and text needs nothing of it.

The wheels of torchvision and of torch's CPU build do not always fit together.
"""

import sys
from types import ModuleType

import transformers.feature_extraction_utils  # noqa: F401 - looks for torchvision in its own way

for name in ("", ".datasets", ".transforms", ".transforms.functional"):
    sys.modules[f"torchvision{name}"] = ModuleType(f"torchvision{name}")
sys.modules["torchvision.datasets"].VisionDataset = object
sys.modules["torchvision.transforms.functional"].to_tensor = None
