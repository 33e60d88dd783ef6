/** The page of the lessons: reads the course from the data block, and puts the lessons into their place. */
import { render } from "preact";
import { DATA, ROOT } from "../ui/page";
import { LearnApp } from "./app";
import type { Course } from "./course";

const root = document.getElementById(ROOT);
const text = document.getElementById(DATA)?.textContent?.trim();
if (root && text) render(<LearnApp course={(JSON.parse(text) as { course: Course }).course} />, root);
