import { writeFileSync } from 'node:fs'
import { renderSettings } from './settings.ts'

/** Writes docs/settings.md from the code: `npm run settings`. */
writeFileSync(new URL('../docs/settings.md', import.meta.url), renderSettings())
