package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Well-known communities (RFC 1997, RFC 3765, RFC 7999, RFC 8326).
const (
	communityGracefulShutdown = 0xFFFF0000
	communityBlackhole        = 0xFFFF029A
	communityNoExport         = 0xFFFFFF01
	communityNoAdvertise      = 0xFFFFFF02
	communityNoExportSubconf  = 0xFFFFFF03
	communityNoPeer           = 0xFFFFFF04
)

func wellKnown(name string) (uint32, bool) {
	switch name {
	case "graceful-shutdown":
		return communityGracefulShutdown, true
	case "blackhole":
		return communityBlackhole, true
	case "no-export":
		return communityNoExport, true
	case "no-advertise":
		return communityNoAdvertise, true
	case "no-export-subconfed", "local-as":
		return communityNoExportSubconf, true
	case "no-peer":
		return communityNoPeer, true
	}
	return 0, false
}

// community is a standard community, or a large one (RFC 8092).
type community struct {
	std     uint32
	large   [3]uint32
	isLarge bool
}

func parseCommunity(text string) (community, error) {
	if std, ok := wellKnown(text); ok {
		return community{std: std}, allowed(std)
	}
	parts := strings.Split(text, ":")
	var nums [3]uint32
	bits := 16
	if len(parts) == 3 {
		bits = 32
	}
	ok := len(parts) == 2 || len(parts) == 3
	for i := 0; ok && i < len(parts); i++ {
		n, err := strconv.ParseUint(parts[i], 10, bits)
		nums[i], ok = uint32(n), err == nil
	}
	switch {
	case !ok:
		return community{}, fmt.Errorf("%q is not a community: write 65000:100 (each below 65536), 65000:1:2, or no-export, no-advertise, local-as, no-peer", text)
	case len(parts) == 3 && nums[0] == 0:
		return community{}, fmt.Errorf("%q begins with 0, which no AS has (RFC 8092)", text)
	case len(parts) == 3:
		return community{large: nums, isLarge: true}, nil
	default:
		std := nums[0]<<16 | nums[1]
		return community{std: std}, allowed(std)
	}
}

// allowed refuses communities that would break what rhid is for.
func allowed(std uint32) error {
	switch std {
	case communityGracefulShutdown:
		return errors.New("graceful-shutdown is set by rhid itself, while it drains (RFC 8326)")
	case communityBlackhole:
		return errors.New("blackhole would make routers drop the service's traffic (RFC 7999)")
	}
	return nil
}

// ParsedCommunities returns the service's communities, sorted: the standard
// ones (RFC 1997) and the large ones (RFC 8092). A validated configuration has
// no error here.
func (s *Service) ParsedCommunities() (std []uint32, large [][3]uint32, err error) {
	if std, large, err = parseCommunities(s.Communities); err != nil {
		return nil, nil, fmt.Errorf("service %s: %w", s.Name, err)
	}
	return std, large, nil
}

func parseCommunities(texts []string) (std []uint32, large [][3]uint32, err error) {
	for _, text := range texts {
		c, err := parseCommunity(text)
		switch {
		case err != nil:
			return nil, nil, err
		case c.isLarge:
			large = append(large, c.large)
		default:
			std = append(std, c.std)
		}
	}
	slices.Sort(std)
	slices.SortFunc(large, func(a, b [3]uint32) int { return slices.Compare(a[:], b[:]) })
	return std, large, nil
}
