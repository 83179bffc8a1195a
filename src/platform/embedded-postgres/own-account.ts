import { execFile } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { chown, copyFile, lchown, lstat, mkdir, open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SystemAccount } from './account.ts'

/**
 * A number that no account has, so that no process but the database's own ever runs under it. Each cluster gets one of
 * its own, below the end of the ranges that containers map and above those that systems hand out.
 */
export async function inventAccount(): Promise<SystemAccount> {
  for (let tries = 0; tries < 100; tries++) {
    const id = randomInt(lowest, highest + 1)
    if (!(await hasAccount(id)) && !(await hasGroup(id)) && !(await isRunning(id)))
      return { uid: id, gid: id }
  }
  throw new Error(
    'PostgreSQL does not run as root, and every number from 58000 to 59989 belongs to an account: set DATABASE_URL.',
  )
}

const lowest = 58_000
const highest = 59_989

/** Whether a number is one that we make up. */
export function isInvented(id: number): boolean {
  return id >= lowest && id <= highest
}

/** Whether the system knows somebody by that number, in its files or in a directory behind them. */
export async function hasAccount(uid: number): Promise<boolean> {
  return (await knows('passwd', uid)) || (await listed('/etc/passwd')).some(({ id }) => id === uid)
}

async function hasGroup(gid: number): Promise<boolean> {
  return (await knows('group', gid)) || (await listed('/etc/group')).some(({ id }) => id === gid)
}

/**
 * `initdb` asks the system for the name of the account it runs under, so it runs under one that has a name and, at this
 * moment, no process that could meddle; what it made is then copied into the database's own hands.
 */
export async function findMaker(own: SystemAccount): Promise<SystemAccount> {
  const accounts = await listed('/etc/passwd')
  const quiet = [...accounts].filter(({ id, line }) => id > 0 && id < 1_000 && /(nologin|false)$/.test(line))
  for (const { id } of quiet) if (!(await isRunning(id))) return { uid: id, gid: own.gid }
  const nobody = accounts.find(({ name }) => name === 'nobody')
  return { uid: nobody?.id ?? 65_534, gid: own.gid }
}

/**
 * Copies a folder into another's hands. New files, not new owners: whoever has one of the old ones open can write to it
 * for as long as he likes, and nobody reads it any more.
 */
export async function copyTo(
  account: SystemAccount,
  from: string,
  to: string,
  durable: boolean,
): Promise<void> {
  const copied = await copyFolder(account, from, to)
  if (!durable) return
  while (copied.length > 0) await Promise.all(copied.splice(-64).map(sync))
}

async function copyFolder(account: SystemAccount, from: string, to: string): Promise<string[]> {
  const { mode } = await lstat(from)
  await mkdir(to, { mode: mode & 0o7777 })
  await chown(to, account.uid, account.gid)
  const copied = [to]
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copied.push(...(await copyFolder(account, source, target)))
    else {
      await copyFile(source, target)
      await chown(target, account.uid, account.gid)
      copied.push(target)
    }
  }
  return copied
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r')
  await file.sync().finally(() => file.close())
}

/** Gives a folder and all in it to another account. The folder itself comes last: until then the work is not done. */
export async function giveTo(account: SystemAccount, folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await giveTo(account, path)
    else await lchown(path, account.uid, account.gid)
  }
  await chown(folder, account.uid, account.gid)
}

type Listed = { readonly name: string; readonly id: number; readonly line: string }

async function listed(file: string): Promise<Listed[]> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    const [name = '', , id = ''] = line.split(':')
    return /^-?\d+$/.test(id) ? [{ name, id: Number(id) >>> 0, line }] : []
  })
}

function knows(list: 'passwd' | 'group', id: number): Promise<boolean> {
  return new Promise((resolve) => execFile('getent', [list, String(id)], (error) => resolve(!error)))
}

/** A system that cannot be asked has no process worth fearing more than the next. */
function isRunning(uid: number): Promise<boolean> {
  return new Promise((resolve) =>
    execFile('ps', ['-eo', 'uid='], (error, stdout) =>
      resolve(!error && stdout.split('\n').some((line) => Number(line) === uid && line.trim() !== '')),
    ),
  )
}
