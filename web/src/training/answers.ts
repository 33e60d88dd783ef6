export function isTraining(data: unknown): data is { training: unknown } { return typeof data === "object" && data !== null && "training" in data; }
