"""One address in _config.yml switches buttons, links and the install cell on; without it nothing of them is there."""

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.browser.looking import build

ROOT = Path(__file__).resolve().parents[2]
CONFIG = (ROOT / "_config.yml").read_text(encoding="utf-8")
PAGES = ("book/index.html", "notebooks/01_promise.html", "notebooks/exercises/01_promise.html")


def built(folder, address):
    """A small book with the settings and extensions that matter here; its front page has cells, but is no notebook."""
    config = yaml.safe_load(CONFIG)
    config["execute"] = {"execute_notebooks": "off"}
    config["repository"]["url"] = address
    config.pop("bibtex_bibfiles")
    config["html"].pop("favicon")
    config["sphinx"] = {
        "extra_extensions": ["sphinx_proof"],
        "config": {"suppress_warnings": ["myst-nb.lexer"]},  # which no kernel names, as none runs
        "local_extensions": {name: str(ROOT) for name in ("book.ext.launch", "book.ext.students")},
    }
    (folder / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    pages = [{"file": page.removesuffix(".html")} for page in PAGES]
    toc = {"format": "jb-book", "root": pages[0]["file"], "chapters": pages[1:]}
    (folder / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    head = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n# Front\n\n```{code-cell} ipython3\n1\n```\n"
    for page in PAGES:
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if page == PAGES[0]:
            path.with_suffix(".md").write_text(head, encoding="utf-8")
        else:
            text = (ROOT / page).with_suffix(".ipynb").read_text(encoding="utf-8")
            path.with_suffix(".ipynb").write_text(re.sub(r"\[([^]\n]*)\]\([^)\n]*\)", r"\1", text), encoding="utf-8")
    assert build(folder, "--all", "--warningiserror", "--keep-going") == ""
    return folder / "_build" / "html"


@pytest.mark.parametrize("address", ["", "https://github.com/owner/name"])
def test_the_address_switches_everything(tmp_path, address):
    site = built(tmp_path, address)
    branch, sources = "students", site / "_sources"
    for page in PAGES:
        name, shown = page.removesuffix(".html"), (site / page).read_text(encoding="utf-8")
        links = re.findall(r'(?:href|src)="(http[^"]*)"', html.unescape(shown))
        outside = {link for link in links if "owner" in link or "colab" in link or "binder" in link}
        repository = {
            address,
            f"{address}/issues/new?title=Issue%20on%20page%20%2F{page}&body=Your%20issue%20content%20here.",
        }
        launch = {
            f"https://mybinder.org/v2/gh/owner/name/{branch}?urlpath=lab/tree/{name}.ipynb",
            f"https://colab.research.google.com/github/owner/name/blob/{branch}/{name}.ipynb",
        }
        assert outside == ((repository | launch if page != PAGES[0] else repository) if address else set())
        assert ("source-buttons" in shown, "launch-buttons" in shown) == (
            bool(address),
            bool(address) and page != PAGES[0],
        )
        if page != PAGES[0]:
            text = (sources / page).with_suffix(".ipynb").read_text(encoding="utf-8")
            assert (f"git+{address}" in text) is bool(address)
            assert "SOLUTION" not in text and ":::" not in text
            assert 'download="01_promise.ipynb"' in shown
    assert (sources / ".binder").exists() is bool(address)
    if address:
        lines = (sources / ".binder" / "postBuild").read_text(encoding="utf-8")
        assert f'pip install --no-deps "dpml @ git+{address}"\n' in lines
        assert (sources / ".binder" / "postBuild").stat().st_mode & 0o100 or sys.platform == "win32"


def test_the_published_configuration_names_no_repository():
    """Until it has an address of its own; the branch is the one that the comment publishes."""
    config = yaml.safe_load(CONFIG)
    assert config["repository"]["url"] == ""
    assert f"--branch {config['repository']['branch']} _build/html/_sources" in CONFIG


def test_binder_installs_what_the_package_needs():
    """The conda environment has the packages of the metadata, at no lower a version; the package adds none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *extras["notebooks"], *extras["torch"], *extras["teaching"]} - {
        "dpml[notebooks]"
    }
    environment = yaml.safe_load((ROOT / ".binder" / "environment.yml").read_text(encoding="utf-8"))
    there = {line.replace("pytorch-cpu", "torch") for line in environment["dependencies"]}
    assert wanted <= there
    [python] = [line.removeprefix("python=") for line in there if line.startswith("python=")]
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]


def test_what_binder_runs_after_that(tmp_path):
    """In the repository, the package and students' copies; in the branch of these copies, the package alone."""
    script = (ROOT / ".binder" / "postBuild").read_text(encoding="utf-8")
    assert script.startswith("#!/usr/bin/env bash\nset -euo pipefail\n")
    for path in (ROOT, tmp_path):
        said = tmp_path / "said"
        (tmp_path / "python").write_text(f"#!/bin/sh\necho \"$@\" >> '{said}'\n", encoding="utf-8")
        (tmp_path / "python").chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        if not Path("/usr/bin/env").exists():
            pytest.skip("no Unix shell")
        said.unlink(missing_ok=True)
        subprocess.run(["bash", ROOT / ".binder" / "postBuild"], cwd=path, env=environment, check=True)
        lines = said.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "-m pip install --no-deps ."
        assert [("release_course" in line) for line in lines[1:]] == [True] * (path == ROOT)
