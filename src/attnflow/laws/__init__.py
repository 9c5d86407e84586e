"""Laws of attention, small frozen objects with `weights` and `attend`: which token listens to which."""

from attnflow.laws.attention import Attention
from attnflow.laws.by_layer import ByLayer
from attnflow.laws.descriptions import Exponents, Neighbourhood
from attnflow.laws.entmax import Entmax
from attnflow.laws.heads import Heads
from attnflow.laws.hearing import Hearing
from attnflow.laws.hegselmann_krause import HegselmannKrause
from attnflow.laws.law import Law, check_law, varies, weighs_like
from attnflow.laws.linear import Linear
from attnflow.laws.masked import Masked, species
from attnflow.laws.positional import Positional
from attnflow.laws.self_adjusted import SelfAdjusted
from attnflow.laws.sigmoid import Sigmoid
from attnflow.laws.sinkhorn import Sinkhorn
from attnflow.laws.softmax import Softmax
from attnflow.laws.sparsemax import Sparsemax
from attnflow.laws.sums import Heard, Products, Sources
from attnflow.laws.top_scores import Hardmax, Localmax, TieError
from attnflow.laws.unnormalized import Unnormalized

# Laws in the order of menus and lists.
__all__ = [  # noqa: RUF022
    "Softmax", "Hardmax", "Localmax", "Entmax", "Sparsemax", "Sinkhorn", "SelfAdjusted", "Unnormalized", "Sigmoid",
    "Linear", "HegselmannKrause", "Heads", "Masked", "Positional", "Attention", "ByLayer",
    "Law", "Heard", "Hearing", "Sources", "TieError", "Exponents", "Neighbourhood", "Products",
    "check_law", "species", "varies", "weighs_like",
]  # fmt: skip
