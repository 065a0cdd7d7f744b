#!/usr/bin/env python3
"""Runs a script of tlsfuzzer with suites that Tidegate speaks: aead.py SCRIPT [OPTION...]

Scripts for TLS 1.2 ask for TLS_RSA_WITH_AES_128_CBC_SHA, or with `-d` for that with ECDHE or DHE.
Few of them are about the cipher. Here these names mean ECDHE with AES-128-GCM.
"""

import os
import runpy
import sys

from tlslite.constants import CipherSuite

AEAD = CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
for name in ("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
             "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"):
    setattr(CipherSuite, name, AEAD)

script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(script)))
runpy.run_path(script, run_name="__main__")
