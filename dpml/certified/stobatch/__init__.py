"""StoBatch (Phan et al., ICML 2020): private training with adversarial examples, and certified prediction.

| module | holds |
|---|---|
| `budget` | sensitivities, noise, budgets and certified sizes, as printed and as they hold |
| `reconstruction` | what the released values of the printed version give away |

As printed, one noise vector is added to all examples. Then the released values determine every image, whatever the
budget says: `reconstruction.from_background`. With fresh noise for each example the mechanism is private, at the price
that `budget.sound_epsilon` states.
"""
