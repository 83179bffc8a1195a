import type { PlantedBug } from '../simulation/planted-bugs.ts'

const moneyForms = 'test/browser/money-forms.test.ts'
const shown = 'test/browser/shown.test.ts'

/** Mistakes of the console, each with the test that must find it: `npm run plant -- --list console`. */
export const consoleBugs: readonly (PlantedBug & { story: string })[] = [
  {
    name: 'a key outlives the refusal that was kept under it',
    file: 'console/src/ui/wish.ts',
    from: '[200, 201, 402].includes',
    to: '[200, 201].includes',
    story: moneyForms,
  },
  {
    name: 'another amount is sent under the key of the first',
    file: 'console/src/ui/wish.ts',
    from: 'const wish = JSON.stringify(body)',
    to: "const wish = ''",
    story: moneyForms,
  },
  {
    name: 'every press has a key of its own',
    file: 'console/src/ui/wish.ts',
    from: 'keys.current.get(wish) ?? crypto.randomUUID()',
    to: 'crypto.randomUUID()',
    story: moneyForms,
  },
  {
    name: 'a wish that is not decided yet is forgotten',
    file: 'console/src/ui/wish.ts',
    from: '[200, 201, 402].includes',
    to: '[200, 201, 202, 402].includes',
    story: moneyForms,
  },
  {
    name: 'a chart of ranks reads no second page',
    file: 'console/src/api/rank-history.ts',
    from: 'if (cursor === null) return { ranks, isCut: false }',
    to: 'return { ranks, isCut: false }',
    story: shown,
  },
  {
    name: 'of too many ranks the newest are left out',
    file: 'console/src/api/rank-history.ts',
    from: 'if (from === to) return { ranks, isCut: true }',
    to: 'if (from <= to) return { ranks, isCut: true }',
    story: shown,
  },
  {
    name: 'the clock decides which days are drawn',
    file: 'console/src/api/rank-history.ts',
    from: 'await readAll(of, addDays(last, 1 - shownDays), last)',
    to: 'await readAll(of, addDays(to, 1 - shownDays), last > to ? last : to)',
    story: shown,
  },
  {
    name: 'the form of a token is silent about scopes that reach nobody',
    file: 'console/src/pages/tokens.tsx',
    from: "hasScopeOf('billing:') && !account &&",
    to: "hasScopeOf('billing:') && account === '-' &&",
    story: shown,
  },
  {
    name: 'a failed comparison of books is shown without its reason',
    file: 'console/src/pages/reconciliation.tsx',
    from: '{last.reason && <Alert color="red">{last.reason}</Alert>}',
    to: '',
    story: shown,
  },
]
