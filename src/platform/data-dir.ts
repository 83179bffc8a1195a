import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'

/** Makes the data dir if it is not there. Only its owner may look inside. */
function ensureDataDir(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code
    throw new Error(
      `The data dir ${dataDir} cannot be made (${reason}); set RANKLEDGER_DATA to a folder you may write.`,
    )
  }
}

/** What a kept secret looks like; anything else in its file was not written by us. */
export type SecretForm = (text: string) => boolean

/**
 * Reads a secret of this installation, or makes it on first use; an empty file counts as none. Two processes that start at once
 * get the same one.
 */
export function keepSecret(dataDir: string, name: string, make: () => string, isForm?: SecretForm): string {
  ensureDataDir(dataDir)
  const file = join(dataDir, name)
  const known = readSecret(dataDir, name, isForm)
  if (known !== undefined) return known
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  writeFileSync(draft, `${make()}\n`, { mode: 0o600, flag: 'wx' })
  try {
    if (!linkUnlessThere(draft, file) && readSecret(dataDir, name, isForm) === undefined) {
      takeEmptyAway(file)
      linkUnlessThere(draft, file)
    }
  } finally {
    rmSync(draft)
  }
  return readSecret(dataDir, name, isForm)!
}

function linkUnlessThere(from: string, file: string): boolean {
  try {
    linkSync(from, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}

/** Another process may have put its secret there since we looked: what turns out not to be empty goes back. */
function takeEmptyAway(file: string): void {
  const aside = `${file}.${randomBytes(6).toString('hex')}`
  try {
    renameSync(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return
  }
  if (readFileSync(aside, 'utf8').trim() !== '') linkUnlessThere(aside, file)
  rmSync(aside)
}

/** Puts a given secret where tools look for it, replacing what was there. Returns what it replaced. */
export function writeSecret(dataDir: string, name: string, value: string): string | undefined {
  ensureDataDir(dataDir)
  const before = readSecret(dataDir, name)
  if (before === value) return undefined
  rmSync(join(dataDir, name), { force: true })
  writeFileSync(join(dataDir, name), `${value}\n`, { mode: 0o600, flag: 'wx' })
  return before
}

/** A file that somebody else wrote, or that others may read, keeps no secret of ours and is not believed. */
export function readSecret(
  dataDir: string,
  name: string,
  isForm: SecretForm = () => true,
): string | undefined {
  const file = join(dataDir, name)
  const refuse = (why: string) =>
    new Error(`${file} ${why}, so what it holds is not believed; look who put it there, then remove it.`)
  let handle: number
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP') throw refuse('is a link')
    throw error
  }
  try {
    const { mode, uid } = fstatSync(handle)
    const own = process.getuid?.()
    if (own !== undefined && uid !== own && uid !== 0) throw refuse('belongs to another account')
    if (own !== undefined && (mode & 0o077) !== 0) throw refuse('may be read or written by other accounts')
    const text = readFileSync(handle, 'utf8').trim()
    if (text !== '' && !isForm(text)) throw refuse('does not hold what belongs there')
    return text || undefined
  } finally {
    closeSync(handle)
  }
}
