/** The list of keys, in a dialog. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { keysText, OTHER_KEYS, SHORTCUTS } from "./keys";

/** Every shortcut; those of a single letter can be switched off in the menu of the view. */
export function Help({ letters, onClose }: { letters: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      {!letters && <p class="note">Single keys are switched off in View.</p>}
      <dl class="keys">
        {[...shortcutRows(), ...OTHER_KEYS].map(([keys, does]) => (
          <div key={does}>
            <dt>{keys.split(" or ").map((key) => <kbd key={key}>{key}</kbd>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog"><button type="submit" class="main">Close</button></form>
    </dialog>
  );
}

/** Rows of keys and what they do; two keys for one thing share a row. */
function shortcutRows(): [string, string][] {
  const rows = new Map<string, string>();
  for (const shortcut of SHORTCUTS) {
    const before = rows.get(shortcut.does);
    rows.set(shortcut.does, before ? `${before} or ${keysText(shortcut)}` : keysText(shortcut));
  }
  return [...rows].map(([does, keys]) => [keys, does]);
}
