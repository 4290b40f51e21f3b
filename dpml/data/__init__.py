r"""Images to learn from, and neighbouring datasets.

`fashion_mnist_subset` reads 10,000 + 2,000 images that come with the package, `digits` 1,437 + 360 small ones. The full
sets are read by `fashion_mnist`, `mnist`, `emnist_letters` and `cifar10`. Each of these looks for its files, in this
order, in

1. the `folder` that you pass, or the subfolder named below,
2. the folder of Debian's package ``dataset-fashion-mnist`` (Fashion-MNIST only),
3. your data folder: the environment variable ``DPML_DATA``, else ``~/.cache/dpml``,
4. the internet, through pooch, into your data folder.

A file counts only when its SHA-256 is the published one; those of MNIST and Fashion-MNIST may lie there unpacked,
under their names without ``.gz``. It is downloaded under a temporary name and gets its
own name after that check, so a broken download never passes for data.

The data folder has one subfolder for each set: ``fashion-mnist``, ``mnist``, ``emnist`` and ``cifar-10``. For
a classroom without internet, serve a filled data folder (or Debian's ``/usr/share/datasets``) from the
lecturer's machine, ``python3 -m http.server 8000 --directory FOLDER``, and set on the students' machines
``DPML_DATA_URL=http://LECTURER:8000``. With this variable set no other server is asked.

`without_one` and `replace_one` make a neighbour of a dataset $D = (d_1, \dots, d_n)$: one record less
(add/remove), or another record in its place (replace-one).
"""

from dpml.data.images import DataUnavailable, Images
from dpml.data.neighbours import replace_one, without_one
from dpml.data.records import grouped, recorded
from dpml.data.sets import cifar10, digits, emnist_letters, fashion_mnist, fashion_mnist_subset, mnist

__all__ = [
    "FASHION_CLASSES",
    "DataUnavailable",
    "Images",
    "cifar10",
    "digits",
    "emnist_letters",
    "fashion_mnist",
    "fashion_mnist_subset",
    "grouped",
    "mnist",
    "recorded",
    "replace_one",
    "without_one",
]

FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
"""Names of the labels 0 to 9 of Fashion-MNIST."""
