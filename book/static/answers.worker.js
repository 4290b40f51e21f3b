/* Python in a worker: the page stays alive while an answer runs, and can stop it. */
const START = `
import json, sys
from dpml.classroom import answers

class Absent:
    """Notes that SciPy lacks a part, which then is loaded."""
    wanted = False
    def find_spec(self, name, path=None, target=None):
        self.wanted = self.wanted or name.startswith("scipy.")

absent = Absent()
sys.meta_path.append(absent)

def run(asked):
    absent.wanted, given = False, json.loads(asked)
    cells = [answers.Cell(**cell) for cell in given["earlier"]]
    outcome = answers.run(cells, answers.Cell(**given["answer"]), [answers.Cell(one) for one in given["checks"]])
    return json.dumps(outcome._asdict() | {"wanted": absent.wanted})
`;
const quiet = { messageCallback: () => {} };
let python;
let whole = false;

async function load(root, digest) {
  const { loadPyodide } = await import(`${root}pyodide.mjs`);
  const lockFileURL = `${root}pyodide-lock.json?v=${digest}`;
  const loaded = await loadPyodide({ indexURL: root, lockFileURL, packages: ["dpml"] }); // all at once
  loaded.runPython(START);
  return loaded;
}

async function start({ root, digest, first }) {
  python ??= await load(root, digest);
  python.runPython(first); // what every check of this page needs takes a second to import
}

async function run(asked) {
  const outcome = JSON.parse(python.globals.get("run")(JSON.stringify(asked)));
  if (!outcome.wanted || whole) return outcome;
  await python.loadPackage("scipy-rest", quiet);
  whole = true;
  return run(asked);
}

// Of an error of Python the last line says what it was, of one of JavaScript the first.
const brief = (error) => String(error.message ?? error).trim().split("\n").at(error.name === "PythonError" ? -1 : 0);

onmessage = async ({ data }) => {
  try {
    postMessage({ id: data.id, result: await (data.root ? start(data) : run(data)) });
  } catch (error) {
    postMessage({ id: data.id, error: brief(error) });
  }
};
