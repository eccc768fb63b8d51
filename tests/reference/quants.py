"""The block formats of GGUF tensors, decoded from their description.

Written for the tests alone: it shares no code and no layout with the engine. A block is a string of
bits, little-endian; `_pick` reads the fields that the description names, one for each number.

    decode("IQ4_XS", data)    -> float64: exact, but for the rounding of one subtraction
    decode32("IQ4_XS", data)  -> float32: what a decoder in single precision has to give, exactly
    codes("IQ4_XS", data)     -> the codes, or indices into a codebook, and how many there can be
    BLOCKS["IQ4_XS"]          -> (numbers in a block, its bytes)
    row_bytes("IQ4_XS", n)    -> bytes of a row of n numbers

A number is scale * n - minimum, where n is a small integer. The scale, the product and the minimum
have at most 24 significant bits, so single precision rounds only where a format has a minimum, once,
and the order of the products does not matter; IQ6_K's product may have 26, and is rounded once
too. A product with zero keeps the sign of the factors.

Of the formats in HEADS a row begins with a float that multiplies all its numbers: data are rows of
`columns` numbers then. The scale is that float times a block's small integer, rounded.
"""
import base64
import zlib

import numpy as np

BLOCKS = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2),
    "Q8_0": (32, 34), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "MXFP4": (32, 17), "TQ2_0": (256, 66), "TQ1_0": (256, 54),
    "IQ3_S": (256, 110), "IQ3_XXS": (256, 98), "IQ2_S": (256, 82), "IQ2_XS": (256, 74),
    "IQ2_XXS": (256, 66), "IQ1_S": (256, 50), "IQ1_M": (256, 56),
    "Q2_0": (64, 18), "Q1_0": (128, 18), "NVFP4": (64, 36), "IQ4_K": (256, 144), "IQ3_K": (256, 110), "IQ2_K": (256, 76),
    "IQ6_K": (256, 212), "IQ5_K": (256, 176), "IQ5_KS": (256, 168), "IQ4_KS": (256, 136),
}

# Bytes of a row before its blocks.
HEADS = {"IQ4_KS": 4, "IQ5_KS": 4}

# Where a block has its f16 scales (a byte each); MXFP4 has an exponent, NVFP4 bytes and IQ1_M a scattered half.
SCALES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ2_0": [64],
    "TQ1_0": [52], "IQ3_S": [0], "IQ3_XXS": [0], "IQ2_S": [0], "IQ2_XS": [0], "IQ2_XXS": [0], "IQ1_S": [0],
    "Q2_0": [0], "Q1_0": [0], "IQ4_K": [0], "IQ3_K": [0], "IQ2_K": [0], "IQ5_K": [0], "IQ6_K": [0],
}

# The codebooks: ascending lists of patterns, as the gaps between them (low bytes, then high bytes,
# deflated). Number i of a pattern is two bits from bit 2i, of IQ3 three bits from bit 3i.
_GAPS = {
    "IQ2_XXS": (
        "c-muNVrFJyXXasIV-jcP;oxMJVd9X8XXatmb`i;7Qb?$0<`D#nu}LU0^N7R%X*FeW!3uT*7ljyBpok<;r&*27A)&"
        "WGb@B=-JgnIq5(ZpqOB8o=NU*Ay&+wWj_L`Z;z_Ffn_Qv&099FXOOv~kWF#QLLiLG)})~S#v*{~O4F$W(P(2@cLM"
        "|sv7ehWUK85|M`l9fVt7=db8cSmq49`-Ka;N)OW;Ha@ndi$TL;(PEKK@RUbC;splXv_#b?6H8Ao2h8uJ|+%x$0iY"
        "tiyuI~P*~vRS8A@Xh>7<zkBCfSY1Yx*N=m#2^B?({wtSbc*up>nFcK-lid&iyiyD|1Bap!;ir)ezthO*Bl(52ufP"
        "5x#Yz|~(WJIW9U}R=s1Dnjk003HUK5z"
    ),
    "IQ2_XS": (
        "c-muNVrFJyXJ%q%2Qnm~G$*qRm}F&7go*%_K!kWWB$;^%AWTJO9#(Cxax_g$T#Cpl1mzo<dBmicoN6G(@UY4N4bf"
        "2G3TNgqaO5ag;K<`jL^FbiOB~q<0}-Zdps@xD3t&R5>>@HiV+{_7nC@WaVbT*Zs$xxi9T5(-0;ESF5lC>z&Q^-kh"
        "-BuG6hGi7=$;|j6UD(KW@;>TOrt^~iH!->?J(CN*~}^%4>Vs~`~WmOz^=(<<`I#JO5?KP*$7g?&o@udm`8H<A4C8"
        "dG=hSLX`f44I4A@Z6cyq*DmZ4kTgHp%@_RO_F*(<O4B}H!4p&k0$P@czz#1Q$x%;6X-#kPB7%-_Zg@gPp$gx}@fk"
        "}=7=np1lZ3WG8m&D?rX&kbqYD{WzGI1PyLO>Y<F})fkr%%S^toA${7t@*63xqB{<Gp~1jY*8FY$Jzn6cd|Ln8Je4"
        "3&uraOl%b#F%3+Mn9?N~C<cs_t7E0W2u8x@Fyb^qltNE367&Tlb}l0;k_beQiJ*%Zv6_TtHCz!BHa9VXArb%pLe@"
        "(Q"
    ),
    "IQ2_S": (
        "c-qZV&r1S96n1BLt~(4$hgR1XwI4<pffPhVbm$OBHzC$S*y<2PKkyPkbTQ~Zh;E*RZguMr_^0(|XJ?%??I8W~;EZ"
        "qH``-6`@0lQ!5|a{Y;>8J13(stDasV$1y5W-vn8^v{v?-HVHi#|)u(Usbp}<{PXazMg2wFpl&5uGLai6BV6?KGcK"
        "NT{zC;C&XC=)ZS37Srl`Pyl}d0v%DT`b-@CRX;oq+kL^bWWG_&Lc?b0l`#Ju2#HIX;D4iMOn`JF|XRsx+>I>aT$|"
        "}cu}|-;IUki<oOyY>?`AjG_&(<?C5kQ=ZzAAJY46t=g3V+QK-$wrofdEmNu8TI$<q$p-+CKXP>RWRS3Nc%qTa}Rs"
        "DTVf3?r?s}~>Cz)Zey+R3(uJ@?_;!k}LCo6QTedd|fxTFSyz`ozgOM_#)=XdqQqs9Zf>QogrxTFLo-kc`XXswL#X"
        "@@PbG7>);Eipz^4SsccZ-3TE)Il#J4H_Pv<WTE6sJg&<QQdk#@P7Ve<Y*_wIp(Es;c{OXRCH{yhoJ2kKRPLm3lNw"
        "2}NW5B`YC3Cgh1=KVdt#I1;Y{MYKgM5z!GDlpd@oC5oRrD`GEd_tXJ(9<1LIT~>X`fmk}w8l6g1$=B15nK07}YE2"
        "m"
    ),
    "IQ3_XXS": (
        "c-rNSQBQ<05QMM8(gjMF3aveZcfg$_Xh@9s?3?;_@&ErDi+{sSCfS)xzBvFnNP)`-P<oj%u&Ij_GZ<89A+2DpozG"
        "1T(w%#co)E<C?Iaj=1T$WD&le3Ttuu68sO{>TjDID{$^l4d?nxEkgtW?frj;f+`l|neiI4kYu=$QK=#kstn)ajVw"
        "66Q14NLGwP}9vf%IUlFFq=ujErV<^7TU!@#^U*uwu|_)%H|-a@jO52?`eKpWCK*|*6O9t@2!N%4QM|P|NMRdlN}G"
        "4"
    ),
    "IQ3_S": (
        "c-rle*-is73`NQHHsfqF?X+}Qq#}?Iyd(bq&v43TKwc6@_PxjUT}p(M5`e@ipm+$3X#8<vA_iM!(Zom;A+e66N|Q"
        "3dK+33K${bH6?T&)TXLQMgwsynqr}B2w99H3g2AVa6Ba4w5n!;&NC^`8+2))FzY7V3d3zE|<v%fP{JPy#pt4_a?7"
        "*e4;?iyVYlm>rPT!<WEaQ5hjcpjzNvd(10JDJQi<vKz9i8rpu@?b;I#xw}76JP<cI7bj2?#2>sGg#ZC!nP_`i#qp"
        "uJYEAgzeXqFZ??EZwMv8=MA)U178wluibGC&fxqnQc9EQQ*N}|5659yo`Kq&v)_Y04N{QhVFK^|D?<?B(nCxj;?D"
        ">4qEIJkGU#&OVx6|VXzL@4nD7skgcp96tb-z$M$Eq)%%k}>K?*IJh^8;e|55W"
    ),
    "IQ1": (
        "c-qxf?QYvf5X^p&C-N*>NK@JpW!ZoWr*V+iQECxzfCi3h$LKTk%{zNXN^;v@O#nFt1mDNr?(FRB@)e74sWlh8h{D"
        "YRi`sWLgso8BnM}k=VP5+EX1rg-P+N;dsaoRS7hHBBT1D?e?1iYoL2FhJ)>3+y_E-_iw~zK#B8~!?bW!Zf&a3SpY"
        ";aRk*N|fI7HHyr^q>oOnznb8EG0TvQrOno<AH|-`VJ_F9fqx@66MJgEpQ`T@ygTcO=<uQwou}X5x1R{>hQ7G-<*V"
        "PCRo+UBc;QZnS^tyRIsG{-I2}H4cssV@%v7LG<I)I=lCqWVkcqt$OxfJ_Rz_X*(wkcF!^*e<+C9jXUz02GXX3E73"
        "0=Pi%Yhcsb1BE#J=2?*d%u2ZqtC$RZf*7c(9<KV+?I(5vLcPKl~u0n#+j#))W?8Rd>5W$jpQPjNffQ=nK4c<#Y&K"
        "(`L9zf%gh)&7}v0=MNU_#wkEZCrr9QBUC%jC=lGx?_Q*CCRW*bJ?nqc<G~D7gPA!sfcBBbDw(zEzf+#5Cpq0R3(s"
        "rSI;92;yAE;cG@L2~j99l(tzMR;Gm)wTrg|kU)XjKqR%St=MYK!U-SFuHd-9cC&-$z(^9YvXMmfXJHQ#4Z!9{7vd"
        "VuO4IbX;rEOQ=floDRfhRh~%jyfw<pD5<sH0u$9$;ncN)`rX@a<_E`OZ$=?!fnHjui;C_P2z2h6%X<qtxq&R*+JG"
        "*Nh`JBi%kMAlgT3234!1PjJkw(b&B1;Q$JA+=|#NNBP)y`31o=_mrOeeNhqI_c%!9uWjT4%^hrdKRM2Cn6ISyg_)"
        "NGrxgtYDhF_q(ugF7ztxcnEY}pmg*ipD9`qZ*=Jt{~N5liIn^S}Yzl(8<DP}-ax7bYiY;0iuUW&MiOAlEW<v7BxI"
        "!X?y#S)L4aJ>jB81@+$eR~W)kMY^0S$D6TfT%pg}#<v}e*(rt$I`r}0RJ=m}ZLJ?LGLO{tcWw6pN{k+V?0}@YJW-"
        "~Pmb_x%DD<d{IH~&4OY5^YYP-eY&68)Bk1M&DJ)6qH@AjG;CB)~$TbCBOg@&2u6>F`gEa(+SNqyFPtkr-@x`tnW^"
        "k$Ojyc#qFdsurThqa9pH>gtkUpkUW7JT8AUZV(F7D-Ir?NR1z6qq2S9$9p#9m-MBxzDQGj3Q0v`Bo@C7F+*vp<cJ"
        "g$E%dh<kB1QVV?xK+OhyG!|i(s>DzZvv&tU@7n8|9hvJ{8LDcbM(fu{BFbsm2=NUTS$<xpkdy{bB%gS7yJc{P(S@"
        "Z@Yy=%<nbyYm<Otw{e^}YV+V2|-<2StB~cy?G2--iFqi?7zVN3fR<@rOodFPk_zV0*lPf&9H1fPNUY9{LmXKcD{%"
        "H@{H@"
    ),
}


def _codebook(name):
    gaps = np.frombuffer(zlib.decompress(base64.b85decode(_GAPS[name])), np.uint8).astype(int)
    n = len(gaps) // 2
    pattern = np.cumsum(gaps[:n] + 256 * gaps[n:])
    per, width = (4, 3) if name.startswith("IQ3") else (8, 2)
    return pattern[:, None] >> width * np.arange(per) & (1 << width) - 1


CODEBOOKS = {name: _codebook(name) for name in _GAPS}

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
E2M1_TWICE = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])

I = np.arange(256)  # the number in a block of 256
J = np.arange(32)   # ... of 32


def row_bytes(name, n):
    elems, size = BLOCKS[name]
    return HEADS.get(name, 0) + n // elems * size


class Blocks:
    """n blocks as bits [n][8 * bytes], and of each its row's scale [n][1], if rows have one."""

    def __init__(self, name, data, columns):
        raw = np.frombuffer(bytes(data), np.uint8)
        if name in HEADS:
            rows = raw.reshape(-1, row_bytes(name, columns))
            scales = rows[:, :4].copy().view("<f4").astype(np.float64)
            self.row_scale = np.repeat(scales, columns // BLOCKS[name][0], axis=0)
            raw = rows[:, 4:]
        raw = raw.reshape(-1, BLOCKS[name][1])
        self.raw = raw
        self.bits = np.unpackbits(raw, axis=1, bitorder="little")

    def pick(self, at, width):
        """Fields of `width` bits that begin at the bits `at`: [n][len(at)]."""
        at = np.asarray(at)
        return sum(self.bits[:, at + k].astype(int) << k for k in range(width))

    def half(self, byte):
        """The f16 at a byte, [n][1], exact."""
        return self.raw[:, byte:byte + 2].copy().view("<f2").astype(np.float64)


def _nibbles_32(b, byte):
    """Numbers j and j + 16 share byte j."""
    return b.pick(8 * (byte + J % 16) + 4 * (J // 16), 4)


def _pairs_of_128(b, byte):
    """Numbers l, l + 32, l + 64, l + 96 of each 128 share a byte."""
    return b.pick(8 * (byte + I // 128 * 32 + I % 32) + 2 * (I % 128 // 32), 2)


def _nibbles_of_64(b, byte):
    """Numbers l and l + 32 of each 64 share a byte."""
    return b.pick(8 * (byte + I // 64 * 32 + I % 32) + 4 * (I % 64 // 32), 4)


# Each gives the codes, how many there can be, scale, n, minimum.

def _q4_0(b):
    q = _nibbles_32(b, 2)
    return q, 16, b.half(0), q - 8, None


def _q4_1(b):
    q = _nibbles_32(b, 4)
    return q, 16, b.half(0), q, -b.half(2)


def _q5_0(b):
    q = _nibbles_32(b, 6) + 16 * b.pick(16 + J, 1)
    return q, 32, b.half(0), q - 16, None


def _q5_1(b):
    q = _nibbles_32(b, 8) + 16 * b.pick(32 + J, 1)
    return q, 32, b.half(0), q, -b.half(2)


def _q8_0(b):
    q = b.pick(16 + 8 * J, 8)
    return q, 256, b.half(0), np.where(q < 128, q, q - 256), None


def _q2_k(b):
    q = _pairs_of_128(b, 16)
    return (q, 4, b.half(80) * b.pick(I // 16 * 8, 4), q, b.half(82) * b.pick(I // 16 * 8 + 4, 4))


def _q3_k(b):
    q = _pairs_of_128(b, 32) + 4 * b.pick(8 * (I % 32) + I // 32, 1)
    j = I // 16
    scale = b.pick(8 * (96 + j % 8) + 4 * (j // 8), 4) + 16 * b.pick(8 * (104 + j % 4) + 2 * (j // 4), 2)
    return q, 8, b.half(108) * (scale - 32), q - 4, None


def _six_bits(b):
    """Scales and minima of the groups of Q4_K and Q5_K."""
    g = I // 32
    low = g < 4
    scale = np.where(low, b.pick(8 * (4 + g % 4), 6),
                     b.pick(8 * (12 + g % 4), 4) + 16 * b.pick(8 * (4 + g % 4) + 6, 2))
    minimum = np.where(low, b.pick(8 * (8 + g % 4), 6),
                       b.pick(8 * (12 + g % 4) + 4, 4) + 16 * b.pick(8 * (8 + g % 4) + 6, 2))
    return scale, minimum


def _q4_k(b):
    q = _nibbles_of_64(b, 16)
    scale, minimum = _six_bits(b)
    return q, 16, b.half(0) * scale, q, b.half(2) * minimum


def _q5_k(b):
    q = _nibbles_of_64(b, 48) + 16 * b.pick(8 * (16 + I % 32) + I // 32, 1)
    scale, minimum = _six_bits(b)
    return q, 32, b.half(0) * scale, q, b.half(2) * minimum


def _q6_k(b):
    q = (b.pick(8 * (I // 128 * 64 + I % 64) + 4 * (I % 128 // 64), 4) +
         16 * b.pick(8 * (128 + I // 128 * 32 + I % 32) + 2 * (I % 128 // 32), 2))
    scale = b.pick(8 * (192 + I // 16), 8)
    return q, 64, b.half(208) * np.where(scale < 128, scale, scale - 256), q - 32, None


def _iq4_nl(b):
    q = _nibbles_32(b, 2)
    return q, 16, b.half(0), IQ4[q], None


def _iq4_xs(b):
    g = I // 32
    q = b.pick(8 * (8 + 16 * g + I % 16) + 4 * (I % 32 // 16), 4)
    scale = b.pick(32 + 4 * g, 4) + 16 * b.pick(16 + 2 * g, 2) - 32
    return q, 16, b.half(0) * scale, IQ4[q], None


def _mxfp4(b):
    q = _nibbles_32(b, 1)
    return q, 16, np.ldexp(1.0, b.raw[:, :1].astype(int) - 128), E2M1_TWICE[q], None


IQ3_K = np.array([-63, -40, -23, -10, 1, 13, 28, 47])
IQ2_K = np.array([-31, -13, 1, 17])


def _iq4_k(b):
    """A bit of the half word at 2 for each 16: their numbers are by 4 greater."""
    h = I // 16
    q = b.pick(8 * (16 + I // 32 * 16 + I % 16) + 4 * (I % 32 // 16), 4)
    scale = b.pick(64 + 4 * h, 4) + 16 * b.pick(32 + 2 * h, 2) - 32
    return q, 16, b.half(0) * scale, IQ4[q] + 4 * b.pick(16 + h, 1), None


def _iq3_k(b):
    h = I // 16
    q = _pairs_of_128(b, 14) + 4 * b.pick(8 * (78 + I % 32) + I // 32, 1)
    scale = (2 * b.pick(48 + 4 * h, 4) + 1) * (1 - 2 * b.pick(32 + h, 1))
    return q, 8, b.half(0) * scale, IQ3_K[q] + 4 * b.pick(16 + h, 1), None


def _iq2_k(b):
    h = I // 16
    q = _pairs_of_128(b, 12)
    return q, 4, b.half(0) * (b.pick(32 + 4 * h, 4) - 8), IQ2_K[q] + 5 * b.pick(16 + h, 1), None


IQ5 = np.array([-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6, -1, 5, 11, 17, 23, 29, 36,
                43, 51, 59, 68, 77, 87, 97, 109, 121])
IQ6 = np.array([-127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54, -51, -47, -44, -40, -37,
                -34, -31, -28, -25, -22, -19, -16, -13, -11, -8, -5, -2, 0, 3, 6, 9, 12, 14, 17, 20, 23, 27, 30, 33, 36, 40,
                44, 47, 51, 55, 59, 63, 68, 72, 77, 82, 87, 92, 98, 103, 109, 115, 121])


def _five_bits(b, byte):
    """128 bytes of nibbles, then 32 of fifth bits, bit g of group g."""
    return _nibbles_of_64(b, byte) + 16 * b.pick(8 * (byte + 128 + I % 32) + I // 32, 1)


def _iq5_k(b):
    h = I // 16
    q = _five_bits(b, 16)
    scale = b.pick(64 + 4 * h, 4) + 16 * b.pick(32 + 2 * h, 2) - 32
    return q, 32, b.half(0) * scale, IQ5[q] + 2 * b.pick(16 + h, 1), None


def _iq6_k(b):
    h = I // 16
    q = _nibbles_of_64(b, 20) + 16 * _pairs_of_128(b, 148)
    scale = b.raw[:, 4 + h].astype(np.int8).astype(int)
    return q, 64, b.half(0) * scale, IQ6[q] + b.pick(16 + h, 1), None


def _group_scales(b):
    """Of a byte the upper seven bits are an even number, of which 127 is taken; the lowest says which table."""
    s = b.raw[:, I // 32].astype(int)
    return (b.row_scale * (s // 2 * 2 - 127)).astype(np.float32).astype(np.float64), s % 2


def _iq4_ks(b):
    q = b.pick(8 * (8 + I // 32 * 16 + I % 16) + 4 * (I % 32 // 16), 4)
    scale, shifted = _group_scales(b)
    return q, 16, scale, IQ4[q] + 4 * shifted, None


def _iq5_ks(b):
    q = _five_bits(b, 8)
    scale, shifted = _group_scales(b)
    return q, 32, scale, IQ5[q] + 2 * shifted, None


def _nvfp4(b):
    """Numbers j and j + 8 of each 16 share a byte; half of an e4m3 number, its sign apart, or 0 for none."""
    i = np.arange(64)
    q = b.pick(8 * (4 + i // 16 * 8 + i % 8) + 4 * (i % 16 // 8), 4)
    x = b.raw[:, i // 16].astype(int)
    e, m = x >> 3 & 15, x & 7
    scale = np.where(e > 0, np.ldexp(1 + m / 8, e - 7), np.ldexp(m / 8, -6)) / 2
    return q, 16, np.where(x == 127, 0, scale), E2M1_TWICE[q], None


def _q2_0(b):
    q = b.pick(16 + 2 * np.arange(64), 2)
    return q, 4, b.half(0), q - 1, None


def _q1_0(b):
    q = b.pick(16 + np.arange(128), 1)
    return q, 2, b.half(0), 2 * q - 1, None


def _tq2_0(b):
    q = _pairs_of_128(b, 0)
    return q, 4, b.half(64), q - 1, None


def _tq1_0(b):
    """A byte x is the fraction x / 256; digit n is what passes the point in the n-th times 3."""
    digit = np.where(I < 160, I // 32, np.where(I < 240, (I - 160) // 16, (I - 240) // 4))
    byte = np.where(I < 160, I % 32, np.where(I < 240, 32 + (I - 160) % 16, 48 + I % 4))
    fraction = b.pick(8 * byte, 8) * 3 ** digit % 256
    q = fraction * 3 // 256
    return q, 3, b.half(52), q - 1, None


def _signs(b, at, parity):
    """-1 where a bit is set: eight bits at each of `at`, or seven, and the eighth is their parity."""
    bit = np.stack([b.pick(at + k, 1) for k in range(7 if parity else 8)], axis=-1)
    if parity:
        bit = np.concatenate([bit, bit.sum(axis=-1, keepdims=True) % 2], axis=-1)
    return (1 - 2 * bit).reshape(len(b.raw), -1)


def _patterns(book, index):
    return CODEBOOKS[book][index].reshape(len(index), -1)


def _iq3(b, book, index, n_index, magnitude, scale, signs):
    n = np.array(magnitude)[_patterns(book, index)] * signs
    return index, n_index, b.half(0) * scale, n, None


def _iq3_s(b):
    i = np.arange(64)
    index = b.pick(8 * (2 + i), 8) + 256 * b.pick(8 * 66 + i, 1)
    return _iq3(b, "IQ3_S", index, 512, [1, 3, 5, 7, 9, 11, 13, 15],
                1 + 2 * b.pick(8 * 106 + 4 * (I // 32), 4), _signs(b, 8 * 74 + 8 * np.arange(32), False))


def _iq3_xxs(b):
    i = np.arange(32)
    word = 8 * 66 + 32 * (i // 4)
    return _iq3(b, "IQ3_XXS", b.pick(8 * (2 + np.arange(64)), 8), 256, [4, 12, 20, 28, 36, 44, 52, 62],
                (0.5 + b.pick(8 * 66 + 32 * (I // 32) + 28, 4)) / 2, _signs(b, word + 7 * (i % 4), True))


def _iq2(b, book, index, n_index, scale, signs):
    n = np.array([8, 25, 43])[_patterns(book, index)] * signs
    return index, n_index, b.half(0) * (0.5 + scale) / 4, n, None


def _iq2_xxs(b):
    i = np.arange(32)
    group = 16 + 64 * (i // 4)  # a group of 32 has 64 bits behind d
    return _iq2(b, "IQ2_XXS", b.pick(group + 8 * (i % 4), 8), 256, b.pick(16 + 64 * (I // 32) + 60, 4),
                _signs(b, group + 32 + 7 * (i % 4), True))


def _iq2_xs(b):
    i = np.arange(32)
    return _iq2(b, "IQ2_XS", b.pick(16 + 16 * i, 9), 512, b.pick(8 * 66 + 4 * (I // 16), 4),
                _signs(b, 16 + 16 * i + 9, True))


def _iq2_s(b):
    i = np.arange(32)
    index = b.pick(8 * (2 + i), 8) + 256 * b.pick(8 * 66 + 2 * i, 2)
    return _iq2(b, "IQ2_S", index, 1024, b.pick(8 * 74 + 4 * (I // 16), 4), _signs(b, 8 * (34 + i), False))


def _iq1(index, d, scale, down):
    """Times 8, so that the shift of an eighth is whole; `down` is for each eight numbers."""
    shift = np.repeat(1 - 2 * down, 8, axis=1)
    return index, 2048, d * (2 * scale + 1) / 8, 8 * (_patterns("IQ1", index) - 1) + shift, None


def _iq1_s(b):
    i = np.arange(32)
    word = 8 * 34 + 16 * (i // 4)
    index = b.pick(8 * (2 + i), 8) + 256 * b.pick(word + 3 * (i % 4), 3)
    return _iq1(index, b.half(0), b.pick(8 * 34 + 16 * (I // 32) + 12, 3), b.pick(word + 15, 1))


def _iq1_m(b):
    i = np.arange(32)
    index = b.pick(8 * i, 8) + 256 * b.pick(8 * 32 + 4 * i, 3)
    d = sum(b.pick([8 * 48 + 16 * k + 12], 4) << 4 * k for k in range(4))
    j = I // 16
    return _iq1(index, d.astype("<u2").view("<f2").astype(np.float64),
                b.pick(8 * 48 + 16 * (j // 4) + 3 * (j % 4), 3), b.pick(8 * 32 + 4 * i + 3, 1))


_FORMATS = {name: globals()["_" + name.lower()] for name in BLOCKS if BLOCKS[name][0] > 1}


def _floats(name, data):
    data = bytes(data)
    if name == "F32":
        return np.frombuffer(data, "<f4")
    if name == "F16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")  # BF16: the upper half


def _terms(name, data, columns):
    _, _, scale, n, minimum = _FORMATS[name](Blocks(name, data, columns))
    product = (scale * n).reshape(-1)
    return product, None if minimum is None else np.broadcast_to(minimum, n.shape).reshape(-1)


def decode(name, data, columns=None):
    """All numbers of `data`, float64."""
    if name not in _FORMATS:
        return _floats(name, data).astype(np.float64)
    product, minimum = _terms(name, data, columns)
    return product if minimum is None else product - minimum


def decode32(name, data, columns=None):
    """The same as a decoder in single precision rounds them."""
    if name not in _FORMATS:
        return _floats(name, data)
    with np.errstate(over="ignore"):
        product, minimum = _terms(name, data, columns)
        product = product.astype(np.float32)
        return product if minimum is None else product - minimum.astype(np.float32)


def codes(name, data, columns=None):
    """(codes or codebook indices, how many there can be); None for the float types."""
    return _FORMATS[name](Blocks(name, data, columns))[:2] if name in _FORMATS else None
