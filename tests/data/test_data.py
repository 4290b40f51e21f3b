"""dpml.data: the shipped subset, the real download path against a server on this machine, neighbours."""

import _thread
import contextlib
import functools
import gzip
import hashlib
import http.server
import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from dpml import data
from dpml.data import _published
from experiments import make_digits
from experiments.make_fashion_subset import written_or_compared
from tests.serving import served

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
NAMES = tuple(file.name for file in _published.FASHION_MNIST.files)
debian = pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not here")
LOADERS = {
    "FASHION_MNIST": data.fashion_mnist,
    "MNIST": data.mnist,
    "EMNIST": data.emnist_letters,
    "CIFAR10": data.cifar10,
}


# The workshop: no host but this one, an empty data folder, small files with known checksums, servers


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty data folder, no system folder, a mirror whose port is closed, and no way out of the machine."""
    lookup = socket.getaddrinfo

    def local_lookup(host, *args, **kwargs):
        assert host in ("127.0.0.1", "::1"), f"a test asked for the address of {host}"
        return lookup(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", local_lookup)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("DPML_DATA_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("DPML_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(_published, "FASHION_MNIST", _published.FASHION_MNIST._replace(system=()))
    return tmp_path / "cache"


def listing(folder):
    """Every file under `folder`, hidden and temporary ones included."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


class Mirror(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked for; a file in `faults` is answered by that function of its content."""

    def __init__(self, *args, log, faults, **kwargs):
        self.log, self.faults = log, faults
        super().__init__(*args, **kwargs)

    def log_message(self, *args):
        self.log.append(self.path)

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if path.name in self.faults:
            self.faults[path.name](self, path.read_bytes())
        else:
            super().do_GET()

    def send(self, content, *, length=None):
        """An answer, or the begin of one of this length."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


@contextlib.contextmanager
def serving(folder, **faults):
    """Yield (address, log) of a server for `folder` on this machine, which is the mirror meanwhile."""
    log = []
    make = functools.partial(Mirror, log=log, faults=faults)
    with served(folder, make) as address, mock.patch.dict(os.environ, DPML_DATA_URL=address):
        yield address, log


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def small_images(seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((256, (40, 28, 28)), (10, 40), (256, (12, 28, 28)), (10, 12))
    return data.Images(*(rng.integers(0, high, shape, dtype=np.uint8) for high, shape in shapes))


def packed(images):
    """The published files of images, by name."""
    return {name: gzip.compress(idx(array), mtime=0) for name, array in zip(NAMES, images, strict=True)}


def equal(left, right):
    return all(a.dtype == b.dtype == np.uint8 and np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def publish(monkeypatch, source_name, contents):
    """Make these the published files of a source: one bytes object, or a tuple of accepted forms, each."""
    files = []
    for name, forms in contents.items():
        forms = forms if isinstance(forms, tuple) else (forms,)
        files.append(_published.File(name, tuple(hashlib.sha256(form).hexdigest() for form in forms)))
    source = getattr(_published, source_name)._replace(files=tuple(files))
    monkeypatch.setattr(_published, source_name, source)


@pytest.fixture
def put(monkeypatch, cache):
    """A function that publishes files and has them in the data folder, whose subfolder it returns."""

    def put(source_name, contents):
        publish(monkeypatch, source_name, contents)
        folder = cache / getattr(_published, source_name).folder
        fill(folder, contents)
        return folder

    return put


def fill(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A small Fashion-MNIST: its arrays, its files by name, and a mirror's folder that holds them."""
    images = small_images()
    contents = packed(images)
    publish(monkeypatch, "FASHION_MNIST", contents)
    fill(tmp_path / "mirror" / "fashion-mnist", contents)
    return images, contents, tmp_path / "mirror"


def refusal(loader=data.fashion_mnist, *args):
    """The message of DataUnavailable: one paragraph."""
    with pytest.raises(data.DataUnavailable) as caught:
        loader(*args)
    message = str(caught.value)
    assert message and "\n" not in message
    assert isinstance(caught.value, OSError)
    return message


# What comes with the package


def bincounts(images):
    return [np.bincount(labels).tolist() for labels in images[1::2]]


DIGITS_TRAIN = [143, 146, 142, 146, 144, 145, 144, 143, 141, 143]
DIGITS_TEST = [35, 36, 35, 37, 37, 37, 37, 36, 33, 37]  # with the others: the counts of the published test part
SHIPPED = {
    "SUBSET": (data.fashion_mnist_subset, 28, 255, [[1000] * 10, [200] * 10], ["2017 Zalando SE", "PROVIDED"]),
    "DIGITS": (data.digits, 8, 16, [DIGITS_TRAIN, DIGITS_TEST], ["E. Alpaydin", "Attribution 4.0", "Section 8 -- Int"]),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_set_is_whole_and_carries_its_checksum(monkeypatch, tmp_path, name):
    load, side, most, counts, licence = SHIPPED[name]
    images, file = load(), getattr(_published, name)
    n, m = map(sum, counts)
    assert [array.shape for array in images] == [(n, side, side), (n,), (m, side, side), (m,)]
    assert bincounts(images) == counts and all(array.dtype == np.uint8 for array in images)
    assert images.train_images.min() == 0 and images.train_images.max() == images.test_images.max() == most
    path = Path(str(_published.DATASETS / file.name))
    whole = path.read_bytes()
    assert file.sha256 == (hashlib.sha256(whole).hexdigest(),)
    assert file.sha256[0] in path.with_name("README.md").read_text(encoding="utf-8")
    assert all(words in path.with_name("LICENSE").read_text(encoding="utf-8") for words in licence)
    monkeypatch.setattr(_published, "DATASETS", tmp_path)
    assert str(tmp_path / file.name) in refusal(load)
    for broken in (whole[:-1], whole.replace(b"\x00", b"\x01", 1), b""):
        fill((tmp_path / file.name).parent, {path.name: broken})
        assert file.sha256[0] in refusal(load)


def test_what_some_classes_look_like():
    assert data.FASHION_CLASSES[1] == "Trouser" and data.FASHION_CLASSES[9] == "Ankle boot"
    images = data.digits()
    first = images.train_images[0]  # a zero: paper in the middle, ink around it
    assert images.train_labels[0] == 0 and first[3:5, 3:5].max() <= 1 < 8 < first[1, 2]


def test_subset_is_a_fresh_copy():
    first = data.fashion_mnist_subset()
    kept = first.train_images[0].copy()
    first.train_images[:] = 7
    assert np.array_equal(data.fashion_mnist_subset().train_images[0], kept)


def test_the_script_makes_the_digits_from_a_wheel_and_refuses_another_table(monkeypatch, tmp_path):
    """From a wheel written here: one with the shipped images gives the same bytes, an altered table is refused."""
    images = data.digits()
    pixels, labels = (np.concatenate(arrays) for arrays in (images[::2], images[1::2]))
    rows = np.column_stack([pixels.reshape(-1, 64), labels])
    table = gzip.compress("\n".join(",".join(map(str, row)) for row in rows.tolist()).encode(), mtime=0)
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        wheel.writestr(make_digits.TABLE, table)
    with pytest.raises(SystemExit, match=r"is not the table that this set was made from"):
        make_digits.images_of(tmp_path / "some.whl")
    monkeypatch.setattr(make_digits, "SHA256", hashlib.sha256(table).hexdigest())
    made = make_digits.images_of(tmp_path / "some.whl")
    assert equal(made, images)
    assert written_or_compared(made, target=tmp_path / "digits.npz", check=False) == 0
    assert written_or_compared(made, target=tmp_path / "digits.npz", check=True) == 0
    other = made._replace(test_labels=made.test_labels[::-1])
    assert written_or_compared(other, target=tmp_path / "digits.npz", check=True) == 1


@debian
def test_subset_is_the_first_of_each_class_of_the_full_set():
    full, subset = data.fashion_mnist(DEBIAN), data.fashion_mnist_subset()
    assert [array.shape for array in full] == [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]
    assert bincounts(full)[0] == [6000] * 10
    for part, per_class in ((slice(2), 1000), (slice(2, 4), 200)):
        (images, labels), (all_images, all_labels) = subset[part], full[part]
        kept = np.sort([np.flatnonzero(all_labels == label)[:per_class] for label in range(10)], axis=None)
        assert np.array_equal(labels, all_labels[kept])
        assert np.array_equal(images, all_images[kept])


@debian
def test_the_script_makes_the_same_bytes_again():
    command = [sys.executable, "-W", "error", "-m", "experiments.make_fashion_subset", "--check"]
    done = subprocess.run(
        [*command, "--folder", str(DEBIAN)], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    # Another zlib may pack the images otherwise; what must not happen is other images.
    assert "the same bytes" in done.stdout or "the same images" in done.stdout, done.stdout + done.stderr
    assert (done.returncode == 0) == ("the same bytes" in done.stdout)


# The full sets: downloads that work


def test_download_then_cache(monkeypatch, cache, small):
    images, contents, mirror = small
    with serving(mirror.parent) as (address, log):
        monkeypatch.setenv("DPML_DATA_URL", f"{address}/mirror/")
        assert equal(data.fashion_mnist(), images)
        assert log == [f"/mirror/fashion-mnist/{name}" for name in NAMES]
        assert listing(cache) == sorted(f"fashion-mnist/{name}" for name in NAMES)
        assert equal(data.fashion_mnist(), images)
        assert len(log) == 4, "the second call asks the data folder, not the server"
    umask = os.umask(0)
    os.umask(umask)
    for name, content in contents.items():
        path = cache / "fashion-mnist" / name
        assert path.read_bytes() == content
        if sys.platform != "win32":
            assert path.stat().st_mode & 0o777 == 0o666 & ~umask, "like any file you make, not private"
    assert equal(data.fashion_mnist(), images), "and works without a server"


def test_without_the_variable_the_files_go_to_the_home_folder(monkeypatch, cache, small, tmp_path):
    monkeypatch.delenv("DPML_DATA")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    with serving(small[2]):
        assert equal(data.fashion_mnist(), small[0])
    assert listing(tmp_path / "home") == sorted(f".cache/dpml/fashion-mnist/{name}" for name in NAMES)
    assert not cache.exists()


def test_the_second_published_address_serves_when_the_first_does_not(monkeypatch, cache, small, tmp_path):
    with serving(small[2]) as (address, log):
        monkeypatch.delenv("DPML_DATA_URL")
        urls = (f"{address}/nothing-here/", f"{address}/fashion-mnist/")
        monkeypatch.setattr(_published, "FASHION_MNIST", _published.FASHION_MNIST._replace(urls=urls))
        assert equal(data.fashion_mnist(), small[0])
        assert len(log) == 12  # for each file the refused request, the server's note of the refusal, the answer
        monkeypatch.setenv("DPML_DATA", str(tmp_path / "other"))
        urls = (f"{address}/nothing-here/", f"{address}/nor-here/")
        monkeypatch.setattr(_published, "FASHION_MNIST", _published.FASHION_MNIST._replace(urls=urls))
        message = refusal()
        assert all(f"{url} answered 404" in message for url in urls)
    assert listing(tmp_path / "other") == []


def test_order_of_the_places(monkeypatch, cache, tmp_path):
    # Four forms of the set, all accepted, one in each place: what comes tells where it came from.
    forms = [small_images(seed) for seed in range(4)]
    files = [packed(form) for form in forms]
    publish(monkeypatch, "FASHION_MNIST", {name: tuple(one[name] for one in files) for name in NAMES})
    system = tmp_path / "system"
    monkeypatch.setattr(_published, "FASHION_MNIST", _published.FASHION_MNIST._replace(system=(system,)))
    given = tmp_path / "given"
    fill(tmp_path / "mirror" / "fashion-mnist", files[3])
    given.mkdir()
    with serving(tmp_path / "mirror"):
        assert equal(data.fashion_mnist(given), forms[3])
        fill(cache / "fashion-mnist", files[2])
        assert equal(data.fashion_mnist(given), forms[2])
        fill(system, files[1])
        assert equal(data.fashion_mnist(given), forms[1])
        fill(given / "fashion-mnist", files[0])
        assert equal(data.fashion_mnist(folder=str(given)), forms[0])
        assert equal(data.fashion_mnist(), forms[1])
        fill(given, files[2])
        assert equal(data.fashion_mnist(given), forms[2])


@debian
def test_real_files_through_the_real_download(monkeypatch, cache, tmp_path):
    # Debian's gzip headers lack the name and the time. Put back, the files have the published checksums:
    # MD5 as printed by the publisher, SHA-256 as in the module. So Debian's content is the publisher's.
    published = {
        "train-images-idx3-ubyte.gz": (1504176606, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        "train-labels-idx1-ubyte.gz": (1504176606, "25c81989df183df01b3e8a0aad5dffbe"),
        "t10k-images-idx3-ubyte.gz": (1504176627, "bef4ecab320f06d8554ea6380940ec79"),
        "t10k-labels-idx1-ubyte.gz": (1504176627, "bb300cfdad3c16e7a12a480ee83cd310"),
    }
    folder = tmp_path / "mirror" / "fashion-mnist"
    folder.mkdir(parents=True)
    for file in _published.FASHION_MNIST.files:
        seconds, md5 = published[file.name]
        short = (DEBIAN / file.name).read_bytes()
        name = file.name.removesuffix(".gz").encode() + b"\0"
        whole = b"\x1f\x8b\x08\x08" + struct.pack("<I", seconds) + short[8:10] + name + short[10:]
        assert hashlib.md5(whole).hexdigest() == md5
        assert hashlib.sha256(whole).hexdigest() == file.sha256[0]
        (folder / file.name).write_bytes(whole)
    with serving(tmp_path / "mirror"):
        downloaded = data.fashion_mnist()
    assert listing(cache) == sorted(f"fashion-mnist/{name}" for name in NAMES)
    assert equal(downloaded, data.fashion_mnist(DEBIAN))


# The full sets: downloads that fail


def dies_halfway(handler, content):
    handler.send(content[: len(content) // 2], length=len(content))
    handler.connection.shutdown(socket.SHUT_RDWR)


FAULTS = {
    "truncated": (lambda handler, content: handler.send(content[:-100]), "checksum"),
    "altered": (lambda handler, content: handler.send(content[:-1] + bytes((content[-1] ^ 1,))), "checksum"),
    "a login page": (lambda handler, content: handler.send(b"<html>Hello</html>"), "checksum"),
    "empty": (lambda handler, content: handler.send(b""), "checksum"),
    "dies halfway": (dies_halfway, "broke off"),
    "error 500": (lambda handler, content: handler.send_error(500), "answered 500"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("position", [0, 2])
def test_a_failed_download_leaves_nothing_half_written(cache, small, fault, position):
    images, contents, mirror = small
    answer, words = FAULTS[fault]
    with serving(mirror, **{NAMES[position]: answer}) as (address, _):
        message = refusal()
    assert words in message and address in message
    whole, absent = NAMES[:position], NAMES[position:]
    assert listing(cache) == sorted(f"fashion-mnist/{name}" for name in whole)
    assert not [path for path in cache.rglob("*") if path.is_dir() and path != cache / "fashion-mnist"]
    for name in absent:
        assert f"{name} (sha256 {hashlib.sha256(contents[name]).hexdigest()})" in message
    assert not any(name in message for name in whole), "only what is missing is asked for"
    with serving(mirror) as (_, log):
        assert equal(data.fashion_mnist(), images)
        assert log == [f"/fashion-mnist/{name}" for name in absent]


def test_an_interrupted_download_leaves_nothing_half_written(monkeypatch, cache, small):
    def interrupt(handler, content):
        handler.send(content[: len(content) // 2], length=len(content))
        half_written.extend(listing(cache))
        _thread.interrupt_main()  # what Ctrl-C does
        with contextlib.suppress(OSError):  # a trickle wakes the reader, until it hangs up
            for byte in content[len(content) // 2 : -1][:500]:
                handler.wfile.write(bytes((byte,)))
                handler.wfile.flush()
                time.sleep(0.01)

    half_written = []
    with serving(small[2], **{NAMES[0]: interrupt}), pytest.raises(KeyboardInterrupt):
        data.fashion_mnist()
    assert len(half_written) == 1 and NAMES[0] not in half_written[0], "it has a temporary name until it is whole"
    assert list(cache.rglob("*")) == [cache / "fashion-mnist"], "no temporary folder either"


@pytest.mark.parametrize("name", LOADERS)
def test_offline(cache, name):
    source = getattr(_published, name)
    with pytest.raises(data.DataUnavailable) as caught:
        LOADERS[name]()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__, "one error, not a chain of them"
    message = str(caught.value)
    assert source.title in message and "no connection to http://127.0.0.1:" in message
    assert str(cache / source.folder) in message and "folder=" in message
    assert source.files and all(f"{file.name} (sha256 {file.sha256[0]})" in message for file in source.files)
    assert source.urls and all(url in message for url in source.urls)
    assert listing(cache) == []


def test_a_damaged_file_in_the_data_folder(cache, small):
    images, contents, mirror = small
    fill(cache / "fashion-mnist", contents | {NAMES[1]: contents[NAMES[1]][:-1]})
    bad = cache / "fashion-mnist" / NAMES[1]
    assert f"{bad} is damaged" in refusal()
    assert bad.read_bytes() == contents[NAMES[1]][:-1], "a failed download leaves the old file as it is"
    with serving(mirror) as (_, log):
        assert equal(data.fashion_mnist(), images)
        assert log == [f"/fashion-mnist/{NAMES[1]}"]
    assert listing(cache) == sorted(f"fashion-mnist/{name}" for name in NAMES)


def test_a_damaged_file_in_the_given_folder(cache, small, tmp_path):
    fill(tmp_path / "given", small[1] | {NAMES[2]: b"something else"})
    bad = tmp_path / "given" / NAMES[2]
    message = refusal(data.fashion_mnist, tmp_path / "given")
    assert str(bad) in message and hashlib.sha256(b"something else").hexdigest() in message
    assert _published.FASHION_MNIST.files[2].sha256[0] in message
    fill(tmp_path / "given" / "fashion-mnist", small[1])
    assert equal(data.fashion_mnist(tmp_path / "given"), small[0]), "the whole one in the subfolder serves"
    for name in (NAMES[0], f"fashion-mnist/{NAMES[0]}"):
        (tmp_path / "given" / name).unlink()
    message = refusal(data.fashion_mnist, tmp_path / "given")
    assert NAMES[0] in message and "is damaged" not in message, "what has a whole twin is no reason"


def test_unpacked_files_serve_too(monkeypatch, cache, small, tmp_path):
    images, contents, _ = small
    raw = {name: gzip.decompress(content) for name, content in contents.items()}
    packed = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    files = tuple(_published.File(name, (packed[name],), hashlib.sha256(raw[name]).hexdigest()) for name in raw)
    monkeypatch.setattr(_published, "MNIST", _published.MNIST._replace(files=files))
    folder = tmp_path / "raw"
    fill(folder, {name.removesuffix(".gz"): content for name, content in raw.items()})
    assert equal(data.mnist(folder), images)
    bad = folder / NAMES[0].removesuffix(".gz")
    bad.write_bytes(raw[NAMES[0]][:-1])
    message = refusal(data.mnist, folder)
    assert f"{bad} is not the MNIST file" in message and f"expected {files[0].unpacked}." in message
    fill(folder, {NAMES[0]: contents[NAMES[0]]})
    assert equal(data.mnist(folder), images), "the packed one serves instead"


def test_the_checksums_of_unpacked_files():
    """Each set of IDX files has one for every file; those of Fashion-MNIST are checked where Debian's package is."""
    for source in (_published.FASHION_MNIST, _published.MNIST):
        assert all(len(file.unpacked) == 64 for file in source.files)
    if DEBIAN.is_dir():
        for file in _published.FASHION_MNIST.files:
            content = gzip.decompress((DEBIAN / file.name).read_bytes())
            assert hashlib.sha256(content).hexdigest() == file.unpacked


@pytest.mark.parametrize("package", ["pooch", "tqdm"])
def test_a_missing_package_is_named(monkeypatch, cache, small, package):
    monkeypatch.setitem(sys.modules, package, None)
    message = refusal()
    assert f"the Python package {package} is not installed" in message
    assert str(cache / "fashion-mnist") in message
    fill(cache / "fashion-mnist", small[1])
    assert equal(data.fashion_mnist(), small[0]), "files that are here need no package"


def test_a_data_folder_that_cannot_be_written(monkeypatch, small, tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    monkeypatch.setenv("DPML_DATA", str(tmp_path / "file"))
    with serving(small[2]):
        assert "cannot be written" in refusal()


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/", "file:///tmp", "127.0.0.1:8000"])
def test_a_mirror_has_a_web_address(monkeypatch, small, address):
    monkeypatch.setenv("DPML_DATA_URL", address)
    with pytest.raises(ValueError, match=r"DPML_DATA_URL must start with http:// or https://, got "):
        data.fashion_mnist()


# What is in the files


def test_mnist_reads_its_own_files(put):
    put("MNIST", packed(small_images(5)))
    assert equal(data.mnist(), small_images(5))


def emnist_zip(images, labels):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for part in ("train", "test"):
            for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
                archive.writestr(f"gzip/emnist-letters-{part}-{kind}-ubyte.gz", gzip.compress(idx(array)))
    return out.getvalue()


def test_emnist_letters_stand_upright(put):
    upright = np.zeros((26, 28, 28), np.uint8)
    upright[:, 4, 6:20] = 255  # a bar across the top, as in T
    upright[:, 4:24, 12] = 200  # and its stem
    upright[:, 23, 20] = np.arange(26)
    labels = np.arange(26, dtype=np.uint8)
    put("EMNIST", {"gzip.zip": emnist_zip(np.ascontiguousarray(upright.transpose(0, 2, 1)), labels + np.uint8(1))})
    assert equal(data.emnist_letters(), data.Images(upright, labels, upright, labels))


class Python2Pickler(pickle._Pickler):
    """Writes byte strings as Python 2 did, which is how the published batches are written."""

    dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012

    def save_text(self, text):
        self.write(pickle.BINSTRING + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch[bytes] = save_text


def python2_pickle(value):
    out = io.BytesIO()
    Python2Pickler(out, protocol=2).dump(value)
    return out.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar_tar(batches):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in {"batches.meta": b"not read", **batches}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def cifar_batches():
    """Six batches of three images: red rises along rows, green along columns, blue is the batch number."""
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    images = np.zeros((6, 3, 32, 32, 3), np.uint8)
    images[..., 0] = np.arange(32)[:, None]
    images[..., 1] = np.arange(32) + 100
    images[..., 2] = np.arange(6)[:, None, None, None]
    labels = np.array([[number, 9, 0] for number in range(6)], np.uint8)
    planes = images.transpose(0, 1, 4, 2, 3).reshape(6, 3, 3072)
    batches = {
        name: {
            b"batch_label": b"a batch",
            b"labels": labels[number].tolist(),
            b"data": planes[number],
            b"filenames": [b"a.png", b"b.png", b"c.png"],
        }
        for number, name in enumerate(names)
    }
    return data.Images(images[:5].reshape(-1, 32, 32, 3), labels[:5].reshape(-1), images[5], labels[5]), batches


CIFAR_FILE = "cifar-10-python.tar.gz"
CIFAR, BATCHES = cifar_batches()


@pytest.mark.parametrize("dump", [python2_pickle, pickle.dumps])
def test_cifar10(put, dump):
    put("CIFAR10", {CIFAR_FILE: cifar_tar({name: dump(batch) for name, batch in BATCHES.items()})})
    assert equal(data.cifar10(), CIFAR)


def test_a_pickle_is_not_opened_before_its_checksum_is_verified(monkeypatch, cache):
    fill(cache / "cifar-10", {CIFAR_FILE: cifar_tar({"data_batch_1": b"anything"})})
    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(tarfile, "open", None)
    assert "is damaged" in refusal(data.cifar10)


# Arguments


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize(
    "folder", ["no such folder", "~no such user/x", "", 3, True, 2.5, ["a"], "a\0b", b"no such folder", __file__]
)
def test_a_folder_must_exist(loader, folder):
    with pytest.raises(ValueError, match="folder must be the path of an existing folder, got "):
        loader(folder)


# Neighbours


ARRAYS = [np.arange(24, dtype=np.uint8).reshape(4, 3, 2), np.array([0.5, -1.0, 2.0]), np.array([1.5, 2.5], np.float32)]
ARRAYS += [np.array([True, False, True]), np.array([[-3, 4]], np.int16)]


@pytest.mark.parametrize("dataset", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_a_neighbour_differs_in_one_record_and_nothing_else(dataset):
    before = dataset.copy()
    for index in range(len(dataset)):
        value = ~dataset[0] if dataset.dtype == bool else dataset[0] + dataset.dtype.type(1)
        less = data.without_one(dataset, index=index)
        other = data.replace_one(dataset, index=np.int64(index), value=value)
        rest = [record.tolist() for i, record in enumerate(before) if i != index]
        assert less.tolist() == rest and less.shape[1:] == dataset.shape[1:]
        assert np.delete(other, index, axis=0).tolist() == rest and np.array_equal(other[index], value)
        for neighbour in (less, other):
            assert neighbour.dtype == dataset.dtype and not np.shares_memory(neighbour, dataset)
    assert np.array_equal(dataset, before)


def test_neighbours_of_lists_and_frozen_arrays():
    bits = [0, 1, 1]
    assert data.without_one(bits, index=0).tolist() == [1, 1]
    assert data.replace_one(bits, index=0, value=1).tolist() == [1, 1, 1]
    assert bits == [0, 1, 1]
    frozen = np.array([1.0, 2.0])
    frozen.flags.writeable = False
    assert data.replace_one(frozen, index=1, value=3).tolist() == [1.0, 3.0]
    assert data.without_one([[1, 2]], index=0).shape == (0, 2)


BAD_DATASETS = [None, "abc", b"abc", 3, 2.5, True, np.float64(1.0), [], np.zeros((0, 3)), {"a": 1}, [10**40]]
BAD_DATASETS += [[1.0, float("nan")], [float("inf")], [1j], ["a"], [None], [[1], [2, 3]]]
BAD_INDICES = [-1, 3, 10**30, 1.0, True, None, "0", [0], float("nan"), slice(0, 1)]
BAD_RECORDS = [
    (np.zeros(3, np.uint8), [256, -1, 0.5, 1.0, True, 10**40, None, "1", [1]]),
    (np.zeros(3), [float("nan"), float("-inf"), 1j, False]),
    (np.zeros(3, np.float32), [1e300]),
    (np.zeros(3, bool), [1]),
    (np.zeros((3, 2)), [1.0, [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], [[1.0], [2.0, 3.0]]]),
]
REFUSED = [
    *((dataset, 0, 1, r"^dataset must ") for dataset in BAD_DATASETS),
    *((np.arange(3), index, 1, r"^index must be an integer in \[0, 2\], got ") for index in BAD_INDICES),
    *((data_, 0, value, r"^value must be a record of shape ") for data_, values in BAD_RECORDS for value in values),
]


@pytest.mark.parametrize(("dataset", "index", "value", "words"), REFUSED)
def test_what_makes_no_neighbour_is_refused(dataset, index, value, words):
    with pytest.raises(ValueError, match=words):
        data.replace_one(dataset, index=index, value=value)
    if not words.startswith("^value"):
        with pytest.raises(ValueError, match=words):
            data.without_one(dataset, index=index)


def test_rows_are_grouped_in_their_order() -> None:
    rows = [{"a": 2, "b": None}, {"a": 1, "b": 3}, {"a": 2, "b": None, "c": 4}]
    found = data.grouped(rows, "a", "b")
    assert list(found.items()) == [((2, None), [rows[0], rows[2]]), ((1, 3), [rows[1]])]
    with pytest.raises(KeyError, match="c"):
        data.grouped(rows, "c")
