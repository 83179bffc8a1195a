/** Tells whether what stands under this name must not be logged. Case and separators do not matter. */
export function isSensitiveName(name: string): boolean {
  if (name.length > maxLength) return false
  const known = verdicts.get(name)
  if (known !== undefined) return known
  const verdict = judge(name)
  // The names that occur are few. Someone who sends endless new ones must not fill the memory.
  if (verdicts.size >= maxVerdicts) verdicts.clear()
  verdicts.set(name, verdict)
  return verdict
}

const maxLength = 80
const maxVerdicts = 2000
const verdicts = new Map<string, boolean>()

function judge(name: string): boolean {
  if (ownId.test(name)) return false
  const compact = name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
  // In a list, names and values look alike, and an id may spell cvc by chance. No name has three digits.
  if (/\d.*\d.*\d/.test(compact)) return false
  if (exact.has(compact)) return true
  if (harmless.test(compact)) return false
  return anywhere.test(compact) || ending.test(compact)
}

// In a list an id of ours is no name either, however few digits it has and whatever its letters spell.
const ownId = /^[a-z]{2,5}_\d[0-9a-hjkmnp-tv-z]{25}$/

const exact = new Set(
  `name id_number pan pin tel hp sid session_id connect_sid rrn ssn ip remote_ip remote_addr remote_address pass auth
  dob iban card account_no acct_no national_id resident_id tax_id passport_id code_verifier
  dsn database_url database_url_session 이름 성명 성함 전화 주소 메일`
    .replaceAll('_', '')
    .split(/\s+/),
)

// A count of tokens or the id of a secret is no secret.
const harmless =
  /(?:ids?|count|type|kind|status|ms|seconds|bytes|version|length|scopes?|brand|prefix|at|size)$/

const anywhere = new RegExp(
  `password passwd passphrase secretkey privatekey apikey billingkey customerkey authkey vaultkey cardnumber
  cardno cvc cvv securitycode cardcode authorization credential residentregistration jumin 비밀번호 주민등록번호
  주민번호 카드번호 보안코드 전화번호 휴대폰 이메일 생년월일 빌링키`
    .trim()
    .split(/\s+/)
    .join('|'),
)

const ending = new RegExp(
  `(?:${`secret secrets token pwd cookie cookies email emails emailaddress mail phone phonenumber mobile
  mobilenumber telephone birth birthday birthdate birthnumber registrationnumber identitynumber address
  idempotencykey signature webhookkey accesskey encryptionkey signingkey bootstraptoken
  customername holdername cardholder fullname firstname lastname givenname familyname surname username buyername
  payername ownername contactname realname legalname nickname depositorname orderername recipientname receivername
  billingname displayname accountnumber cardpassword expirymonth expiryyear customerip clientip`
    .trim()
    .split(/\s+/)
    .join('|')})$`,
)
