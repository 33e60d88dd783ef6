/** The page of a circuit that is too large to hand over, and of a training: a script of its own, without the small page's. */
import { render } from "preact";
import { isTraining } from "../training/answers";
import { TrainingApp } from "../training/app";
import type { PageData } from "../state/data";
import { DATA, ROOT } from "../ui/page";
import { isLarge } from "./answers";
import { LargeApp } from "./app";

const root = document.getElementById(ROOT);
const data = JSON.parse(document.getElementById(DATA)?.textContent?.trim() || "{}") as PageData;
if (root && isTraining(data)) render(<TrainingApp data={data} />, root);
else if (root && isLarge(data)) render(<LargeApp data={data} />, root);
