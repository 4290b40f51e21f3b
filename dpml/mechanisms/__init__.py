"""The four mechanisms that everything else is built from, with their exact privacy.

| mechanism | adds | privacy |
|---|---|---|
| `laplace` | Laplace noise of scale b | epsilon = 1/b, `laplace_epsilon` |
| `gaussian` | Gaussian noise of standard deviation sigma | delta(epsilon), `gaussian_delta` |
| `randomized_response` | a lie now and then | epsilon = log(truth / lie), `randomized_response_truth_probability` |
| `exponential` | random choice, good options likelier | epsilon, by construction |

The true answer has sensitivity 1: between neighbouring datasets it moves by at most 1 (in the L1 norm for
Laplace, L2 for Gaussian; each score by at most 1 for the exponential mechanism). For sensitivity s, divide the
answer by s first, or read `scale` and `sigma` in units of s. The guarantees hold for whichever neighbouring
relation the sensitivity was computed for.

The noise is drawn in double precision. Its lowest bits can betray the true answer to an attacker who sees all
64 of them (I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012): fine
for learning and experiments, not for releasing data about real people without further rounding.
"""

from dpml.mechanisms import exponential_choice, gaussian_noise, laplace_noise, randomized_bits
from dpml.mechanisms.exponential_choice import *
from dpml.mechanisms.gaussian_noise import *
from dpml.mechanisms.laplace_noise import *
from dpml.mechanisms.randomized_bits import *

__all__ = []
__all__ += exponential_choice.__all__
__all__ += gaussian_noise.__all__
__all__ += laplace_noise.__all__
__all__ += randomized_bits.__all__
