import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

type Locked = { license?: string; dev?: boolean; link?: boolean; version?: string }

export function licenceFaults(): string[] {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const packages = Object.entries<Locked>(lock.packages).filter(
    ([path, entry]) => path.includes('node_modules/') && !entry.link,
  )
  if (packages.length < 50) return ['package-lock.json names hardly any packages; nothing was checked.']
  return packages.flatMap(([path, entry]) => {
    const licence = entry.license ?? licenceOfInstalled(path)
    if (licence && isPermissive(licence, entry.dev === true)) return []
    return [
      `${path.replace(/^.*node_modules\//, '')} ${entry.version}: licence ${licence ?? 'unknown'} is not on the list`,
    ]
  })
}

const permissive = new Set([
  '0BSD',
  'Apache-2.0',
  'Apache-2.0 WITH LLVM-exception',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'OFL-1.1',
  'PostgreSQL',
  'Python-2.0',
  'Unlicense',
  'Zlib',
])
// Not handed on with the service, so that its duty to offer changed files does not reach our users.
const forDevelopment = new Set(['CC-BY-4.0', 'MPL-2.0'])

export function isPermissive(expression: string, dev: boolean): boolean {
  const plain = expression.replace(/^\((.*)\)$/, '$1')
  if (plain.includes(' OR ')) return plain.split(' OR ').some((one) => isPermissive(one.trim(), dev))
  if (plain.includes(' AND ')) return plain.split(' AND ').every((one) => isPermissive(one.trim(), dev))
  return permissive.has(plain) || (dev && forDevelopment.has(plain))
}

/** Some packages tell their licence only in words; these were read. */
const readByHand: Readonly<Record<string, string>> = { 'png-js': 'MIT' }

function licenceOfInstalled(path: string): string | undefined {
  const name = path.replace(/^.*node_modules\//, '')
  try {
    const { license } = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'))
    return typeof license === 'string' ? license : (license?.type ?? readByHand[name])
  } catch {
    return readByHand[name]
  }
}

/** A registry that does not answer is no fault of the change under test. */
export function advisoryFaults(): string[] {
  const asked = spawnSync('npm', ['audit', '--omit=dev', '--audit-level=high', '--json'], {
    cwd: root,
    encoding: 'utf8',
    timeout: 60_000,
  })
  try {
    const report = JSON.parse(asked.stdout)
    if (report.metadata?.vulnerabilities === undefined) throw new Error('no report')
    const { high, critical } = report.metadata.vulnerabilities
    if (high + critical === 0) return []
    return Object.keys(report.vulnerabilities).map(
      (name) => `${name}: npm audit knows an advisory; upgrade it`,
    )
  } catch {
    process.stdout.write('The registry does not answer npm audit here; advisories were not checked.\n')
    return []
  }
}

const shapes: Readonly<Record<string, RegExp>> = {
  'a live key of a payment provider': /\b(?:sk|rk)_live_[A-Za-z0-9]{16,}|\blive_g?sk_[A-Za-z0-9]{16,}/g,
  'a test key of a payment provider': /\b(?:sk|rk)_test_[A-Za-z0-9]{20,}|\btest_g?sk_[A-Za-z0-9]{20,}/g,
  'a webhook secret': /\bwhsec_[A-Za-z0-9+/]{30,}/g,
  'a token of this service': /\brl_(?:live|test)_[A-Za-z0-9]{40,}/g,
  'a private key': /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*[A-Za-z0-9+/=]{40,}/g,
  'an AWS key': /\bAKIA[0-9A-Z]{16}\b/g,
  'a GitHub token': /\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{60,}/g,
  'an npm token': /\bnpm_[A-Za-z0-9]{36}\b/g,
  'a Slack token': /\bxox[abprs]-[A-Za-z0-9-]{20,}/g,
  'a Google key': /\bAIza[0-9A-Za-z_-]{35}\b/g,
  'a JSON web token': /\beyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}/g,
}

/** Made up for tests of the log and of signatures, by the hash of the text that was found. */
const madeUp = new Set(['1d973fbd53b55ab0', '4985c78f5d13ab96', '80cee1a8ba021fdd', '96ad2ccd81462a76'])

export function secretFaults(): string[] {
  const files = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' }).split('\0')
  return files
    .filter((file) => file !== '')
    .flatMap((file) => secretsIn(file, readFileSync(join(root, file), 'latin1')))
}

export function secretsIn(file: string, text: string): string[] {
  return Object.entries(shapes).flatMap(([what, shape]) =>
    [...text.matchAll(shape)]
      .map(([found]) => createHash('sha256').update(found).digest('hex').slice(0, 16))
      .filter((hash) => !madeUp.has(hash))
      .map(
        (hash) =>
          `${file}: looks like ${what} (${hash}); remove it, or list it in tools/supply.ts if it is made up`,
      ),
  )
}
