import type { Principal } from '../platform/access/access.ts'
import { refuseRequest } from '../platform/refusal.ts'

/** The workspace a request is about: the one it names, else the token's own. `*` stands for all and so for none. */
export function workspaceOf(principal: Principal, named: string | undefined): string {
  const workspace = named ?? principal.workspace
  if (workspace !== null && workspace !== '*') return workspace
  throw refuseRequest('validation_failed', {
    details: [
      {
        path: 'workspace_id',
        code: 'required',
        message: 'This token is bound to no single workspace: name one.',
      },
    ],
  })
}
