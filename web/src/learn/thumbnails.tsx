/** The small figure of each lesson on the map; decoration, since the words beside it say what it shows. */

const box = (x: number, y: number, sign: string, size = 22) => (
  <g key={`${x} ${y}`}>
    <rect class="b" x={x - size / 2} y={y - size / 2} width={size} height={size} rx="6" />
    <text x={x} y={y + 4.5} text-anchor="middle" font-size={sign.length > 1 ? 9 : 14}>{sign}</text>
  </g>
);
const line = (d: string, look = "") => <path key={d} class={`w ${look}`} d={d} />;
const word = (x: number, y: number, text: string, look = "") => <text key={`${x} ${y}`} class={look} x={x} y={y} text-anchor="middle" font-size="11">{text}</text>;

const FIGURES: Readonly<Record<string, () => unknown[]>> = {
  circuit: () => [line("M30 30H90M30 66H90M60 30V14H132V42H140M112 50H140M160 50H190"), <circle class="d" cx="60" cy="30" r="4" />, box(102, 50, "+"), line("M90 30V44M90 66V56"), box(150, 46, "×"), word(22, 34, "a", "i"), word(22, 70, "b", "i")],
  forward: () => [line("M38 30H92V40M38 66H92V56"), box(102, 48, "×"), line("M114 48H196", "strong"), word(26, 34, "a", "i"), word(26, 70, "b", "i"), <circle class="d" cx="150" cy="48" r="4" />, line("M188 43l8 5-8 5", "strong")],
  local: () => [line("M30 34H128M30 62H128M150 48H200"), box(140, 48, "×", 26), word(24, 38, "a", "i"), word(24, 66, "b", "i"), <rect class="b" x="78" y="25" width="34" height="18" rx="9" />, <rect class="b" x="78" y="53" width="34" height="18" rx="9" />, word(95, 38, "×b"), word(95, 66, "×a")],
  upstream: () => [line("M200 48H152", "pos"), line("M128 36H40", "neg"), line("M128 60H40", "pos"), line("M46 31l-8 5 8 5", "neg"), line("M46 55l-8 5 8 5", "pos"), box(140, 48, "×", 28)],
  splitters: () => [line("M96 48H30", "pos"), line("M36 43l-8 5 8 5", "pos"), line("M104 48Q120 48 124 34T140 22H196M104 48H196M104 48Q120 48 124 62T140 74H196", "pos"), <circle class="b" cx="100" cy="48" r="9" />, word(100, 52, "+")],
  order: () => [line("M40 48H78M90 48Q100 30 118 30M90 48Q100 66 118 66M142 30Q160 30 164 44M142 66Q160 66 164 52"), <circle class="b" cx="84" cy="48" r="8" />, word(84, 52, "+"), box(130, 30, "×"), box(130, 66, "+"), box(176, 48, "×")],
  patterns: () => [box(34, 40, "+"), box(84, 40, "×"), box(134, 40, "⊕"), box(186, 40, "max", 26), word(34, 74, "same"), word(84, 74, "swap"), word(134, 74, "sum"), word(186, 74, "one")],
  flat: () => [word(76, 26, "df = 1", "m"), word(76, 44, "de = df * c", "m"), word(76, 62, "dc = df * e", "m"), word(76, 80, "da = de", "m"), line("M150 20V76M145 70l5 7 5-7"), box(184, 30, "×"), box(184, 66, "+")],
  neuron: () => [line("M24 24H60Q70 24 74 40M24 48H76M24 72H60Q70 72 74 56M100 48H124M160 48H180"), box(88, 48, "+"), box(142, 48, "tanh", 34), box(192, 48, "L")],
  descent: () => [line("M40 12V82H200"), line("M42 20Q70 26 90 52T196 76", "strong"), <circle class="b" cx="104" cy="62" r="5" />],
  memory: () => [0, 1, 2, 3, 4, 5, 6, 7].flatMap((k) => [<rect class="f" x={28 + 22 * k} y="18" width="16" height="24" rx="3" />, <rect class={k % 3 ? "h" : "f strong"} x={28 + 22 * k} y="54" width="16" height="24" rx="3" />]),
  frameworks: () => ["torch", "jax", "tf"].flatMap((name, k) => [<rect class="b" x={20 + 66 * k} y="14" width="58" height="68" rx="7" />, word(49 + 66 * k, 32, name, "m"), box(49 + 66 * k, 58, "×")]),
  broken: () => [line("M120 48H30", "pole"), line("M190 48H160"), box(140, 48, "exp", 36), word(70, 76, "NaN", "nan")],
  build: () => [word(80, 28, "class Value:", "m"), word(80, 48, "  def __mul__", "m"), word(80, 68, "  def backward", "m"), <rect class="f strong" x="176" y="18" width="14" height="14" rx="3" />, <rect class="h" x="176" y="40" width="14" height="14" rx="3" />, <rect class="h" x="176" y="62" width="14" height="14" rx="3" />],
};

/** The figure of a lesson; lessons of teachers have a plain one. */
export function Thumbnail({ lesson }: { lesson: string }) {
  const figure = FIGURES[lesson] ?? (() => [line("M30 48H90M116 48H190"), box(103, 48, "f", 26)]);
  return <svg class="thumbnail" viewBox="0 0 220 96" aria-hidden="true">{figure() as never}</svg>;
}
