import { readFileSync } from 'node:fs'
import { packageFile } from './package-files.ts'

/** The version of this service, as its package names it. */
export const release: string = JSON.parse(readFileSync(packageFile('package.json'), 'utf8')).version
