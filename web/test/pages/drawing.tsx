// A page for tests in a browser: one drawing exercise, the formula in the fragment, and a log of what it reports.
import { render } from "preact";
import { useState } from "preact/hooks";
import { DrawingExercise } from "../../src/learn/drawing";

function TestPage() {
  const [log, setLog] = useState<string[]>([]);
  const formula = decodeURIComponent(location.hash.slice(1));
  return (
    <main>
      <h1 class="aloud">Draw it yourself</h1>
      <DrawingExercise key={formula} formula={formula} onSolved={() => setLog((old) => [...old, "solved"])} onRight={() => undefined}
        onMistake={(_, key) => setLog((old) => [...old, key])} />
      <p id="log" hidden>{log.join(" ")}</p>
    </main>
  );
}

const root = document.getElementById("explorer")!;
const dark = matchMedia("(prefers-color-scheme: dark)");
root.className = "wg-app learn";
root.dataset.theme = dark.matches ? "dark" : "light";
render(<TestPage />, root);
