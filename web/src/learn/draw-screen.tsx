/** A screen on which the learner draws the circuit of a formula: on paper, to be compared with the real one. */
import { useState } from "preact/hooks";
import { circuitOf, type DrawScreen } from "./course";
import { LiveFigure, spaced } from "./figure";
import { Column, Onward, useHeading, type ScreenProps } from "./lesson";
import { Named } from "../ui/named";

/** The screen; seeing the circuit settles it. */
export function DrawView(props: ScreenProps & { screen: DrawScreen }) {
  const { screen: { formula }, at, progress, onProgress } = props;
  const solved = progress.logs[at]?.includes("next") ?? false;
  const [shown, setShown] = useState(solved);
  const heading = useHeading();
  const leaves = Object.fromEntries(circuitOf(formula).inputs.map((name) => [name, 1]));
  const reveal = (): void => {
    setShown(true);
    if (!solved) onProgress((own) => ({ ...own, logs: { ...own.logs, [at]: ["next"] } }));
  };
  return (
    <main class="screen">
      <Column {...props}>
        <div class="body text">
          <h1 {...heading}>Draw the circuit</h1>
          <p>Draw the circuit of <Named text={spaced(formula)} /> on paper: a box for each sign, one wire out of each box, a splitter where a value is used twice.</p>
          {!shown && <button type="button" onClick={reveal}>Compare</button>}
        </div>
        <Onward {...props} />
      </Column>
      <div class="stage">
        {shown && <LiveFigure figure={{ formula, leaves, show: "start", about: "" }} moved={null} onLeaves={() => undefined} />}
      </div>
    </main>
  );
}
