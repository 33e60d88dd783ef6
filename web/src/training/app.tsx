export function TrainingApp(_: { data: unknown }) { return null; }
