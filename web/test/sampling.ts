// How much of a long test an ordinary run does: `make test` a sample, `make test-all` all of it.

/** One case in `every`, beginning at `first`; all of them where WIREGRAD_TEST_ALL is set. */
export function sampled<Case>(cases: readonly Case[], every: number, first = 0): Case[] {
  return cases.filter((_, k) => process.env.WIREGRAD_TEST_ALL || k % every === first);
}
