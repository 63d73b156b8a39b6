from typing import Any

input_t = dict[str, Any]
output_t = dict[str, Any]
