/** Pictures and exercises that some lessons have instead of a circuit; the kind of a block names one. */
import { useState } from "preact/hooks";
import { useUnique } from "../ui/parts";
import { circuitOf } from "./course";
import { Descent } from "./descent";
import { FlatCode } from "./flat";
import type { ScreenProps } from "./lesson";
import { showNumber, type Leaves } from "./quiz-run";

interface Props extends ScreenProps {
  widget: Readonly<Record<string, string>>;
}

/** The widget of a block. */
export function Widget({ widget, at, progress, onProgress }: Props) {
  const { formula = "", about = "" } = widget;
  switch (widget.kind) {
    case "flat": return <FlatCode formula={formula} about={about} log={progress.logs[at] ?? []} onLog={(line) => onProgress((own) => ({ ...own, logs: { ...own.logs, [at]: [...(own.logs[at] ?? []), line] } }))} />;
    case "python": return <pre class="program" tabIndex={0} aria-label="Python code">{widget.code}</pre>;
    case "descent": return <Descent about={about} />;
    case "memory": return <MemoryPlan length={Number(widget.length ?? 12)} about={about} />;
    default: return <Frameworks formula={formula} leaves={readLeaves(widget.leaves ?? "")} about={about} />;
  }
}

function readLeaves(text: string): Leaves {
  return Object.fromEntries(text.split(/\s+/).filter(Boolean).map((part) => {
    const [name, value] = part.split("=");
    return [name!, Number(value)];
  }));
}

/** A chain of values: which are stored, which are computed again, for every distance between two that are kept. */
function MemoryPlan({ length, about }: { length: number; about: string }) {
  const [every, setEvery] = useState(1);
  const id = useUnique();
  const kept = Math.ceil(length / every);
  const peak = kept + every - 1;
  return (
    <div class="memory">
      <p class="about-figure">{about}</p>
      <div class="cells" aria-hidden="true">
        {Array.from({ length }, (_, k) => <span key={k} class={k % every ? "again" : "kept"} />)}
      </div>
      <p class="rate">
        <label for={id}>Keep one value of</label>
        <input id={id} type="range" min={1} max={length} step={1} value={every} onInput={(event) => setEvery(Number(event.currentTarget.value))} />
        <b class="num">{every}</b>
      </p>
      <dl class="ruled">
        <div class="fact"><dt>values on the chain</dt><dd>{length}</dd></div>
        <div class="fact"><dt>kept from the forward pass</dt><dd>{kept}</dd></div>
        <div class="fact"><dt>computed again on the way back</dt><dd>{length - kept}</dd></div>
        <div class="fact"><dt>in memory at the same time, at most</dt><dd><b>{peak}</b></dd></div>
      </dl>
    </div>
  );
}

const FUNCTIONS = /\b(tanh|exp|log|sin|cos|sqrt)\(/g;

/** The same circuit as the code of three frameworks, each with what it prints. */
function Frameworks({ formula, leaves, about }: { formula: string; leaves: Leaves; about: string }) {
  return (
    <div class="frameworks">
      <p class="about-figure">{about}</p>
      {frameworkCodes(formula, leaves).map(([name, code]) => (
        <section key={name} aria-label={name}><h2>{name}</h2><pre tabIndex={0}>{code}</pre></section>
      ))}
    </div>
  );
}

const real = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value));

/** The code of each framework; the numbers behind # are what the circuit gives. */
export function frameworkCodes(formula: string, leaves: Leaves): (readonly [string, string])[] {
  const circuit = circuitOf(formula);
  const run = circuit.run(leaves);
  const names = circuit.leaves.map((node) => circuit.title(node));
  const output = circuit.title(circuit.root);
  const lines = formula.split(";").map((line) => line.trim());
  const body = (module: string, indent = ""): string => lines.map((line) => `${indent}${line.replace(FUNCTIONS, `${module}.$1(`)}`).join("\n");
  const grads = circuit.leaves.map((node) => showNumber(run.upstream(node)).replaceAll("−", "-"));
  const all = names.join(", ");
  return [
    ["PyTorch", [
      "import torch", "",
      ...names.map((name) => `${name} = torch.tensor(${real(leaves[name]!)}, requires_grad=True)`),
      body("torch"), `${output}.backward()`,
      ...names.map((name, k) => `print(${name}.grad)  # ${grads[k]}`),
    ].join("\n")],
    ["JAX", [
      "import jax", "import jax.numpy as jnp", "",
      `def circuit(${all}):`, body("jnp", "    "), `    return ${output}`, "",
      `gradient = jax.grad(circuit, argnums=(${names.map((_, k) => k).join(", ")}))`,
      `print(gradient(${names.map((name) => real(leaves[name]!)).join(", ")}))  # ${grads.join(", ")}`,
    ].join("\n")],
    ["TensorFlow", [
      "import tensorflow as tf", "",
      ...names.map((name) => `${name} = tf.Variable(${real(leaves[name]!)})`),
      "with tf.GradientTape() as tape:", body("tf.math", "    "),
      `print(tape.gradient(${output}, [${all}]))  # ${grads.join(", ")}`,
    ].join("\n")],
  ];
}
