"""llama2.c's encoding and decoding, as plain as its C source: the test of wgcc's quick one."""

from __future__ import annotations

import re
import struct

BOS, EOS = 1, 2


class Llama2cFile:
    def __init__(self, data: bytes) -> None:
        self.pieces: list[bytes] = []
        self.scores: list[float] = []
        at = 4
        while at < len(data):
            score, length = struct.unpack_from("<fi", data, at)
            self.scores.append(score)
            self.pieces.append(data[at + 8 : at + 8 + length])
            at += 8 + length
        self.lookup = {piece: number for number, piece in enumerate(self.pieces)}

    def encode(self, text: str, bos: bool) -> list[int]:
        return [*([BOS] if bos else []), *self._merged(text)]

    def _merged(self, text: str) -> list[int]:
        ids = [self.lookup[b" "]] if text else []
        for letter in text:
            found = self.lookup.get(letter.encode())
            ids += [byte + 3 for byte in letter.encode()] if found is None else [found]
        while True:
            best_score, best_id, best_place = -1e10, -1, -1
            for place in range(len(ids) - 1):
                joined = self.lookup.get(self.pieces[ids[place]] + self.pieces[ids[place + 1]])
                if joined is not None and self.scores[joined] > best_score:
                    best_score, best_id, best_place = self.scores[joined], joined, place
            if best_place < 0:
                return ids
            ids[best_place : best_place + 2] = [best_id]

    def decode(self, ids: list[int]) -> str:
        """The bytes of all tokens; invalid ones as the other tokenizers show them."""
        shown = [self.pieces[number] for number in ids if number not in (0, BOS, EOS)]
        text = b"".join(shown).removeprefix(b" ")
        runs = re.split(rb"((?:<0x[0-9A-F]{2}>)+)", text)
        return "".join(_run(run) if run.startswith(b"<0x") else run.decode() for run in runs)


def _run(run: bytes) -> str:
    data = bytes(int(number, 16) for number in re.findall(rb"<0x([0-9A-F]{2})>", run))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "\ufffd" * len(data)
