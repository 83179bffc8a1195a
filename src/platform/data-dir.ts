import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Makes the data dir if it is not there. Only its owner may look inside. */
export function ensureDataDir(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code
    throw new Error(
      `The data dir ${dataDir} cannot be made (${reason}); set RANKLEDGER_DATA to a folder you may write.`,
    )
  }
}

/** Reads a secret of this installation, or makes it on first use. Two processes that start at once get the same one. */
export function keepSecret(dataDir: string, name: string, make: () => string): string {
  ensureDataDir(dataDir)
  const file = join(dataDir, name)
  const known = readSecret(dataDir, name)
  if (known !== undefined) return known
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, `${make()}\n`, { mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  return readFileSync(file, 'utf8').trim()
}

/** Puts a given secret where tools look for it, replacing what was there. */
export function writeSecret(dataDir: string, name: string, value: string): void {
  ensureDataDir(dataDir)
  if (readSecret(dataDir, name) === value) return
  rmSync(join(dataDir, name), { force: true })
  writeFileSync(join(dataDir, name), `${value}\n`, { mode: 0o600 })
}

function readSecret(dataDir: string, name: string): string | undefined {
  try {
    return readFileSync(join(dataDir, name), 'utf8').trim() || undefined
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
