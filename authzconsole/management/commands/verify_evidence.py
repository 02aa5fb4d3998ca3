"""Verify an evidence bundle. Needs no database."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from grants.evidence import BundleError, known_public_keys, verify_bundle


class Command(BaseCommand):
    help = (
        "Verify that no byte of an evidence bundle was changed, and who signed it. Needs no database. The signature must be "
        "made with KEY; without --public-key, with a key of JOURNAL_KEYS of this console."
    )
    requires_system_checks = ()

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", type=Path, help="the ZIP file")
        parser.add_argument(
            "--public-key",
            metavar="KEY",
            default="",
            help="the public key that the console shows on its page Evidence",
        )

    def handle(self, *, file, public_key, **options):
        trusted = {public_key.strip().lower()} if public_key else known_public_keys()
        if not trusted:
            raise CommandError(
                "no key is known that could have signed the bundle: pass the console's key with --public-key"
            )
        try:
            manifest = verify_bundle(file, trusted)
        except BundleError as error:
            raise CommandError(f"The bundle is not valid: {error}.") from None
        head = manifest["journal_head"]
        contents = " with its contents" if manifest.get("contents") else ""
        contents += f", only {manifest['kind']}," if manifest.get("kind") else ""
        content = (
            f"review {manifest['review']}, {manifest['title']}"
            if "review" in manifest
            else f"access to {manifest['entity']}{contents} from revision {manifest['from_revision']} to revision "
            f"{manifest['to_revision']}"
        )
        self.stdout.write(f"The bundle is valid: {content}, created {manifest['created_at']}.")
        self.stdout.write(f"Head of the journal: revision {head['revision']}, hash {head['hash']}.")
