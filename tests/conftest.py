"""One torch thread in tests: the matrices are small, and CI shares its cores."""

import torch

torch.set_num_threads(1)
