import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { packageFile } from '../src/platform/package-files.ts'

/** Each migration as it was released, or as it landed since. A change is a new file, with a line of its own here. */
const frozen: Readonly<Record<string, string>> = {
  '20261115T0900-platform.sql': '639c8bf9d372afcb9a2c9acc310a6be07ffb618ea1a781b8c23d3982401db90d',
  '20261115T0920-batch-keywords.sql': 'bcba8ea1f1e52dcefa65c7664194cbfd145a7c50be248ded2d12e289326dc5a4',
  '20261115T1000-billing.sql': 'bfe4c34e9d2cf482483612c9d70d292e99613401aa2c5d3b9cc1d1b9fdb3b5d7',
  '20261115T1100-sandbox.sql': 'f8baca7b72257726c8a60196dad4816fd53196af7abac6958b35cb0b22cbcb0e',
  '20261115T1200-batch-ranks.sql': 'ee863a4f1171c832d6135a7760eafe9f442aee45bb543511d3eb6dc7a0382100',
  '20261115T1210-batch-volumes.sql': '2c0da4a0502fbdc803af24a14c313ee6bc80b844347aa136b02e220eee37fcb0',
  '20261115T1220-batch-imports.sql': '5596b480173c0d207ab991d5f8da5d99b647803b1ec8a92365ff16bb094781be',
  '20261115T1300-batch-runs.sql': '47335a109ab48553f8ab5594f7cf362f34f702309e62a6cf8e33f0694c56fe61',
  '20261115T1300-billing-webhooks.sql': '2e2c110baf93cd936742ea8382a2bf93e8fa5efd3447163ea8601cf8fad42bc1',
  '20261115T1310-batch-models.sql': '340ec2db3586a62e556c620f7e0cc51aa42042b21fbfe043629400a8960f68d8',
  '20261115T1320-batch-predictions.sql': 'f5b6955c4303e99f254f65f4f4b9500275f540b4437b6d17e3f77d9b4f24e18d',
  '20261115T1350-billing-sweeps.sql': '04f1a8e35fdc7805850a8916253f22e4efe415ae5a71c3fffeca95566c2ccd7f',
  '20261115T1400-batch-tracking.sql': '0af00713e82988afbab740fcce151345bf2e6059d8c604498ac5bda7b965a61f',
  '20261115T1400-billing-summary.sql': '707c8f95defbb6977da999909a5aef54deae191b3f447e669d362c7ef783d292',
  '20261116T0900-batch-months.sql': 'aa3e8b5a4fdfb132848423ff367836525823dff381fffe1676f111edbb1d500d',
  '20261116T1430-grown-tables.sql': 'c894549886122fbeca55a5ddb8a9b60f06b85a53e2157a2739db111d44bb7042',
  '20261116T1440-billing-payment-methods-to-delete.sql':
    '46b2db3d7268c8c368758a4222e29a55d3bfc9fc0b35e9677543c612de5374da',
  '20261116T1450-batch-rank-means.sql': '1ead8ab9072e54400114763e86945bd063dcdb2ef0d7a2beaa22cef77bf9eff5',
  '20261116T1500-batch-heap-bytes.sql': '6264ddda6d5fed76b288d703c330d66be1f38d527fac26653e7428387fc8ef57',
  '20261116T1510-payment-method-alarms.sql':
    '193d475e0ef81c152d33414ff6b2b686f4be1a1a6cdf22fa8d0c6bfea29ef985',
  '20261116T1520-batch-volume-horizon.sql':
    'aed9e7e47dd433e5c7cbc1635dd64ff9c0f87ce464d7016e32b4e1ebad74b4de',
  '20261116T1530-batch-rank-orders.sql': '3b5874bb1f85e67f9583e6e123b50dce53301d59d3ae33256e5ae38a60679e10',
  '20261116T1540-batch-dropped-best-ranks.sql':
    'e07cb4fda5d647444a8a420f54d30bb14a67973aa93d10826943c65d3f2f800e',
  '20261117T0300-batch-keyword-trends.sql':
    'ca53c6c177334caee6188e807ea7ceaff4d70cb02d616905a04a4adb56cce4bf',
  '20261118T0100-sandbox-kept-plans.sql': '7ddf0d17e5485be13c962a81eb574f98a88f0f0fdea43ccff86309c530a39fc3',
  '20261118T0110-sandbox-wire-references.sql':
    'c0734054c41bda992f7f49481eb6b7a87a6eab44268757b9b0908902dc82dca4',
  '20261118T0210-billing-whose-payment-method.sql':
    'dd40f96ae0fb748179718f941a0cebb831c40722225db84ba08c7420725080ff',
  '20261118T0220-billing-reconciliation-reason.sql':
    '7d7a4bcf078df69a9a7128720f0a065a46569208c37d9b4ef73f59d769b8452d',
  '20261118T0230-billing-duplicate-payments.sql':
    '708764a80d82c669982aac48bc9346ff8605fef3365605858c0900672706c672',
  '20261118T0230-billing-provider-codes.sql':
    '847b82cfdac9e87af43b30fcd13848b037c6584a724d8e3e96cc1d84f50a6eb8',
  '20261118T0231-billing-unsent-by-time.sql':
    'f3e3a007bffa6c67037d50b828c1f4f4f1e05c1002464c585fa213fc95c63f16',
  '20261118T0240-billing-due-before.sql': '88c6b1d71d69ad74688699e18d3400ddf1a4b5c38bd9c39b542e6c2b04c45473',
  '20261119T0100-batch-known-parts-of-volumes.sql':
    'e83945d69868a8c38e67eaac71602143e59094b649aa06cc678ecbe46c0a5fa9',
  '20261119T0110-sandbox-own-keys.sql': 'e1e3425f29935550d748bfd8391c2815aa9fc64c9a5f4ed44fc73755e4db826c',
  '20261119T0120-billing-offered-terms.sql':
    '9a730135cf28d106355765f0ad2374d7ac7bfccbee102bb2e6d1bc3dd6350aa5',
  '20261119T0130-platform-sessions-of-a-token.sql':
    '3684999163e8207a5a4c04ce83ff06ea039a7dec69aa1bdb04845ed3b03b248e',
  '20261119T0140-batch-lookup-times.sql': 'e8a734f0621a74da30e69b9eaa6dbf8dfbf0342ecc65fdf6cc5f05b9f7d2024a',
  '20261119T0200-grown-tracking.sql': '1caa5c1176a444e028688bd882f545308f6115bc81332c0d7e58b2f5869b613d',
}

test('no migration that somebody may have applied is changed, renamed or slipped in between', () => {
  const folder = packageFile('migrations')
  const found = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(`${folder}/${name}`))
        .digest('hex'),
    ])
  expect(Object.fromEntries(found)).toEqual(frozen)
  expect(Object.keys(frozen)).toEqual(Object.keys(frozen).toSorted())
})
