/** Names and expressions as a book sets them: letters italic, the digits behind them as subscripts. */
import { mathParts } from "../layout/signs";

/** A text in which the names of one letter stand in italics. */
export function Named({ text }: { text: string }) {
  return (
    <span class="math">
      {mathParts(text).map(({ text: part, look }, key) => {
        if (look === "subscript") return <sub key={key}>{part}</sub>;
        return look === "italic" ? <i key={key}>{part}</i> : part;
      })}
    </span>
  );
}
