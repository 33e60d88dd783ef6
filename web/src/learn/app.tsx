/** The lessons: the map of the course, or one lesson; where the learner is stands in the address. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useTheme } from "../ui/parts";
import type { Course, Lesson } from "./course";
import { CourseMap } from "./course-map";
import { LessonView } from "./lesson";
import { summed } from "./lesson-run";
import { loadProgress, noLesson, storeProgress, type Edit, type Progress } from "./progress";

/** Where the learner is: a lesson and one of its screens; the last one is its summary. */
export interface Route {
  lesson: Lesson;
  screen: number;
}

/** The route of an address such as #/upstream/3; null is the map. Screens count from 1 there. */
function routeOf({ lessons }: Course, hash: string, progress: Progress): Route | null {
  const [, key, screen] = hash.split("/");
  const lesson = lessons.find((found) => found.key === key);
  if (!lesson) return null;
  const at = screen ? Number(screen) - 1 : (progress.lessons[lesson.key]?.screen ?? 0);
  return { lesson, screen: Number.isInteger(at) ? Math.max(0, Math.min(at, lesson.screens.length)) : 0 };
}

export const addressOf = (lesson: Lesson, screen: number): string => `#/${lesson.key}/${screen + 1}`;

/** The whole page of the lessons. */
export function LearnApp({ course }: { course: Course }) {
  const [progress, setProgress] = useState(loadProgress);
  const [kept, setKept] = useState(true);
  const [hash, setHash] = useState(location.hash);
  const theme = useTheme("system");
  useEffect(() => {
    const listen = (): void => setHash(location.hash);
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  // What is kept follows from what was kept last, not from what was drawn last: a key may come in between.
  const latest = useRef(progress);
  const keep = (next: Progress): void => {
    latest.current = next;
    setProgress(next);
    setKept(storeProgress(next));
  };
  const route = routeOf(course, hash, progress);
  const change = (lesson: Lesson, edit: Edit): void => {
    const { lessons } = latest.current;
    const own = summed(lesson, edit(lessons[lesson.key] ?? noLesson()));
    keep({ ...latest.current, last: lesson.key, lessons: { ...lessons, [lesson.key]: own } });
  };
  useEffect(() => {
    document.title = `${route?.lesson.title ?? course.title} - wiregrad`;
    scrollTo(0, 0);
  }, [route?.lesson.key, route?.screen]);
  return (
    <div class="wg-app shell learn" data-theme={theme}>
      {route ? (
        <LessonView key={route.lesson.key} route={route} course={course} progress={progress.lessons[route.lesson.key] ?? noLesson()}
          onProgress={(edit) => change(route.lesson, edit)} />
      ) : (
        <CourseMap course={course} progress={progress} kept={kept} onProgress={keep} />
      )}
    </div>
  );
}
