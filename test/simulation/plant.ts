import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type PlantedBug, plantedBugs } from './planted-bugs.ts'
import { openServer } from './server.ts'

/** `npm run plant`: plants one mistake at a time into a copy of the code; exit 0 only if the campaign finds them all. */
const { values } = parseArgs({
  options: {
    /** A campaign that has not found it by then has missed it. */
    seeds: { type: 'string', default: '190' },
    /** Only those whose name holds this text. */
    only: { type: 'string', default: '' },
    /** Which one of the list to begin with, counted from 1. */
    from: { type: 'string', default: '1' },
  },
})

const repository = fileURLToPath(new URL('../../', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'rankledger-planted-'))
const server = await openServer()
const missed: string[] = []
try {
  for (const part of ['src', 'test', 'migrations', 'package.json', 'tsconfig.json'])
    cpSync(join(repository, part), join(copy, part), { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(copy, 'node_modules'))
  const bugs = plantedBugs.slice(Number(values.from) - 1).filter(({ name }) => name.includes(values.only))
  for (const bug of bugs) requireFit(bug)
  // Whatever the campaign finds in healthy code would otherwise be taken for the bug.
  const healthy = await simulate()
  if (healthy.code !== 0) throw new Error(`The campaign fails without any planted bug:\n${healthy.output}`)
  for (const bug of bugs) {
    const found = await campaignFinds(bug)
    console.log(`${found === undefined ? 'MISSED' : 'found '}  ${bug.name}${found ? `: ${found}` : ''}`)
    if (found === undefined) missed.push(bug.name)
  }
  console.log(`${bugs.length - missed.length} of ${bugs.length} found`)
  process.exitCode = missed.length === 0 && bugs.length > 0 ? 0 : 1
} finally {
  await server.close()
  rmSync(copy, { recursive: true, force: true })
}

function requireFit({ file, from, name }: PlantedBug): void {
  if (readFileSync(join(copy, file), 'utf8').split(from).length !== 2)
    throw new Error(`"${name}" does not fit ${file} exactly once.`)
}

/** The violation that gave it away. */
async function campaignFinds({ file, from, to, name }: PlantedBug): Promise<string | undefined> {
  const path = join(copy, file)
  const healthy = readFileSync(path, 'utf8')
  writeFileSync(
    path,
    healthy.replace(from, () => to),
  )
  try {
    const { code, output } = await simulate()
    if (code === 0) return undefined
    // A campaign that could not even run has found nothing.
    const violation = /^ {2}(.+)$/m.exec(output)?.[1] ?? /^leaks: .+$/m.exec(output)?.[0]
    if (violation === undefined) throw new Error(`"${name}" broke the campaign itself:\n${output}`)
    return violation.slice(0, 160)
  } finally {
    writeFileSync(path, healthy)
  }
}

function simulate(): Promise<{ code: number | null; output: string }> {
  const child = spawn(
    process.execPath,
    [
      '--import',
      'tsx',
      'test/simulation/simulate.ts',
      '--server',
      server.url,
      '--seeds',
      values.seeds,
      '--failures',
      '1',
      '--tail',
      '0',
    ],
    { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })))
}
