/** A screen on which the learner draws the circuit of a formula and fills in its numbers. */
import { type DrawScreen } from "./course";
import { DrawingExercise } from "./drawing";
import { spaced } from "./figure";
import { LessonHead, Onward, useHeading, type ScreenProps } from "./lesson";
import { loadDrawing, mistakeLine, storeDrawing } from "./progress";

/** The screen; a complete drawing settles it. */
export function DrawView(props: ScreenProps & { screen: DrawScreen }) {
  const { screen: { formula }, lesson, at, progress: { round }, onProgress } = props;
  const name = `${lesson.key}/${at + 1}/${round}`;
  const heading = useHeading();
  const write = (line: string): void => onProgress((own) => {
    const log = own.logs[at] ?? [];
    return log.includes("next") ? own : { ...own, logs: { ...own.logs, [at]: [...log, line] } };
  });
  return (
    <main class="draw-screen">
      <LessonHead {...props} />
      <h1 {...heading} class="aloud">{`Draw the circuit of ${spaced(formula)}`}</h1>
      <DrawingExercise key={formula} formula={formula} onSolved={() => write("next")} onRight={(shown) => write(shown ? "shown" : "right")}
        onMistake={(kind, key) => write(mistakeLine(kind, key))} kept={loadDrawing(name)} onKeep={(drawing) => storeDrawing(name, drawing)} />
      <Onward {...props} />
    </main>
  );
}
